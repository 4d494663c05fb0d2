//! Computes renewal times. With the ACME extension "renewal information" (RFC 9773), the issuer suggests
//! the renewal time.

use std::time::{Duration, SystemTime};

use instant_acme::{Account, CertificateIdentifier};
use rustls::pki_types::Der;
use thruway_net::tls::CertificateContents;
use tokio::time::Instant;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::AuthorityKeyIdentifier;

use super::due::{random_time_between, renewal_at};

/// Renewal time of a certificate. At `ask_again`, the client asks the issuer again for a renewal time.
pub(super) struct Renewal {
    pub(super) at: SystemTime,
    certificate: Vec<u8>,
    ask_again: Instant,
}

/// Time window that the issuer suggests for the renewal of a certificate.
pub(super) struct Suggested {
    start: SystemTime,
    end: SystemTime,
    /// Delay until the client asks the issuer for a new time window.
    ask_again: Duration,
}

impl Renewal {
    /// Returns the renewal time of a certificate. `chance` is a random number from 0 to 1.
    pub(super) fn of(contents: &CertificateContents, suggested: Option<&Suggested>, chance: f64) -> Self {
        let validity = &contents.validity;
        let lifetime = validity.not_after.duration_since(validity.not_before).unwrap_or_default();
        // The issuer cannot delay the renewal beyond this time, because an expired certificate is useless.
        let latest = validity.not_after.checked_sub(lifetime / 10).unwrap_or(validity.not_before);
        let at = suggested.map_or_else(
            || renewal_at(validity, chance),
            |suggested| random_time_between(suggested.start, suggested.end, chance).min(latest),
        );
        let ask_again = suggested.map_or(ASK_AGAIN, |suggested| suggested.ask_again.clamp(ASK_MIN, ASK_MAX));
        Self { at, certificate: leaf_of(contents).to_vec(), ask_again: Instant::now() + ask_again }
    }

    /// Returns `true` if this renewal time is for the certificate `contents`, and it is too early to ask the
    /// issuer for a new renewal time.
    pub(super) fn holds_for(&self, contents: &CertificateContents) -> bool {
        self.certificate == leaf_of(contents) && Instant::now() < self.ask_again
    }
}

impl Suggested {
    /// Requests the renewal window that the ACME server suggests for a certificate. Returns `None` if the
    /// request fails or the window is invalid.
    pub(super) async fn of(account: &Account, contents: &CertificateContents) -> Option<Self> {
        let (info, ask_again) = account.renewal_info(&identifier_of(leaf_of(contents))?).await.ok()?;
        let window = info.suggested_window;
        // A window that ends before it starts is invalid.
        (window.start < window.end).then(|| Self {
            start: window.start.into(),
            end: window.end.into(),
            ask_again,
        })
    }
}

fn leaf_of(contents: &CertificateContents) -> &[u8] {
    contents.chain.first().map_or(&[], Vec::as_slice)
}

/// Returns the identifier of a certificate in ACME requests (RFC 9773 §4.1).
pub(super) fn identifier_of(certificate: &[u8]) -> Option<CertificateIdentifier<'static>> {
    let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let (_, authority) = certificate.get::<AuthorityKeyIdentifier>().ok()??;
    let key = authority.key_identifier?;
    let serial = Der::from_slice(certificate.serial_number.as_bytes());
    Some(CertificateIdentifier::new(Der::from_slice(key.as_bytes()), serial).into_owned())
}

const ASK_AGAIN: Duration = Duration::from_hours(6);
const ASK_MIN: Duration = Duration::from_mins(10);
const ASK_MAX: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, Issuer, KeyIdMethod, KeyPair, SerialNumber};
    use thruway_net::tls::Validity;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn contents() -> CertificateContents {
        let not_before = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let validity = Validity { not_before, not_after: not_before + 90 * DAY };
        CertificateContents { names: Vec::new(), validity, chain: vec![b"leaf".to_vec()] }
    }

    #[test]
    fn renewal_is_before_expiry_even_if_issuer_suggests_a_later_time() {
        let contents = contents();
        let start = contents.validity.not_before;
        let at = |from: Duration, until: Duration| {
            let suggested = Suggested { start: start + from, end: start + until, ask_again: DAY };
            Renewal::of(&contents, Some(&suggested), 0.5).at.duration_since(start).unwrap()
        };
        assert_eq!(at(10 * DAY, 12 * DAY), 11 * DAY);
        assert_eq!(at(100 * DAY, 200 * DAY), 81 * DAY);
        let by_default = Renewal::of(&contents, None, 0.0);
        assert_eq!(by_default.at, start + 60 * DAY);
        assert!(by_default.holds_for(&contents));
        let other = CertificateContents { chain: vec![b"other".to_vec()], ..contents };
        assert!(!by_default.holds_for(&other));
    }

    #[test]
    fn certificate_identifier_matches_rfc_9773_example() {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.key_identifier_method = KeyIdMethod::PreSpecified(vec![
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae, 0x2c,
            0xde, 0x01, 0xc8, 0xd4,
        ]);
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from_slice(&[0x87, 0x65, 0x43, 0x21]));
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(authority, &key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        // The example of RFC 9773 §4.1.
        let identifier = identifier_of(certificate.der()).unwrap().to_string();
        assert_eq!(identifier, "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
        assert!(identifier_of(b"no certificate").is_none());
    }
}
