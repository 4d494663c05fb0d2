//! What others must not guess, and what time it is for them.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use thruway_net::{Clock, random_bytes};

/// Text that nobody can guess: 43 characters that need no escaping, which is also a verifier of RFC 7636
/// §4.1.
pub(super) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<32>())
}

/// Seconds since the Unix epoch.
pub(super) fn unix_time() -> u64 {
    let time = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |since| since.as_secs())
}
