//! Random text and the current time.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use thruway_net::{Clock, random_bytes};

/// Returns 43 random characters that need no escaping. The text is also a valid code verifier (RFC 7636
/// §4.1).
pub(super) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<32>())
}

/// Returns the seconds since the Unix epoch.
pub(super) fn unix_time() -> u64 {
    let time = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |since| since.as_secs())
}
