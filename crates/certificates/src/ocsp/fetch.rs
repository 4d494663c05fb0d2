//! Sends OCSP requests over HTTP (RFC 6960 §A.1), with a timeout and a maximum response size.

use std::time::{Duration, SystemTime};

use thruway_client::{Client, ClientConfig, PoolConfig, Timeouts};
use thruway_net::Clock;

use super::{OcspError, Staple, Subject};

/// Creates the HTTP client for OCSP requests. `timeout` is the timeout of a request.
pub(super) fn client(timeout: Duration) -> Client {
    let mut config = ClientConfig { connect: timeout, ..ClientConfig::default() };
    config.exchange.timeouts = Timeouts { total: Some(timeout), head: timeout, ..Timeouts::default() };
    // Consecutive requests rarely go to the same responder, so connections are not reused.
    config.pool = PoolConfig { idle_max: 0, ..PoolConfig::default() };
    Client::with_config(config)
}

/// Fetches the OCSP response for `subject`.
pub(super) async fn fetch(client: &Client, subject: &Subject) -> Result<Staple, OcspError> {
    let request = client
        .post(&subject.responder)
        .field("Content-Type", "application/ocsp-request")
        .field("Accept", "application/ocsp-response")
        .content(subject.request.clone())
        .idempotent(true);
    let response = request.send().await.map_err(OcspError::Unreachable)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(OcspError::Status(status));
    }
    let der = response.collect(ANSWER_BYTES_MAX).await.map_err(OcspError::Unreachable)?;
    Staple::read(&der, &subject.named, Clock::system().time_of_day())
}

/// Returns the delay from `now` to the next OCSP request. The next request is due after half of the
/// validity of `staple`, plus a random time of up to a twentieth of the validity. `chance` is a random
/// number from 0 to 1.
pub(super) fn refresh_after(staple: &Staple, now: SystemTime, chance: f64) -> Duration {
    let half = staple.next_update.duration_since(staple.this_update).unwrap_or_default() / 2;
    let at = staple.this_update + half + (half / 10).mul_f64(chance.clamp(0.0, 1.0));
    at.duration_since(now).unwrap_or_default().clamp(REFRESH_MIN, REFRESH_MAX)
}

/// Returns the delay after `failures` consecutive failures. The delay starts at `first` and doubles with
/// each failure, up to one hour. A random time of up to a quarter of the delay is added.
pub(super) fn retry_after(failures: u32, first: Duration, chance: f64) -> Duration {
    let backoff = first.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(RETRY_MAX);
    backoff + (backoff / 4).mul_f64(chance.clamp(0.0, 1.0))
}

/// Minimum delay between requests. Responders return the same response for hours.
const REFRESH_MIN: Duration = Duration::from_mins(1);
/// Maximum delay between requests, so that a revocation is noticed within two days.
const REFRESH_MAX: Duration = Duration::from_hours(48);
const RETRY_MAX: Duration = Duration::from_hours(1);

/// Maximum size of a response, in bytes. Typical responses have a few kilobytes, including the certificates
/// of the signer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn ocsp_response_is_refreshed_at_half_of_its_validity() {
        let this_update = SystemTime::UNIX_EPOCH + 1000 * HOUR;
        let after = |hours: u32, now: u32, chance| {
            let staple = Staple { der: Vec::new(), this_update, next_update: this_update + hours * HOUR };
            refresh_after(&staple, this_update + now * HOUR, chance)
        };
        assert_eq!(after(20, 0, 0.0), 10 * HOUR);
        assert_eq!(after(20, 0, 1.0), 11 * HOUR);
        assert_eq!(after(20, 4, 0.0), 6 * HOUR);
        assert_eq!(after(20, 15, 0.0), REFRESH_MIN);
        assert_eq!(after(10_000, 0, 0.0), REFRESH_MAX);
    }

    #[test]
    fn retry_delay_doubles_with_each_failure_up_to_one_hour() {
        let after = |failures| retry_after(failures, Duration::from_mins(1), 0.0);
        assert_eq!([1, 2, 3, 6].map(after), [1, 2, 4, 32].map(Duration::from_mins));
        assert_eq!(after(u32::MAX), RETRY_MAX);
        assert_eq!(retry_after(1, Duration::from_mins(1), 1.0), Duration::from_secs(75));
    }
}
