//! Writes PEM (RFC 7468).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns `der` in PEM with the label `label`, such as `CERTIFICATE`.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    // RFC 7468 §2 requires lines of 64 characters.
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}
