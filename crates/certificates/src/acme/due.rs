//! Computes the times of renewals and retries. The caller passes the random numbers.

use std::time::{Duration, SystemTime};

use thruway_net::tls::Validity;

use super::Pace;

/// Returns the renewal time of a certificate whose issuer suggests no renewal time. This is the time at which
/// a third of the lifetime is left, minus a random time of up to a thirtieth of the lifetime. With the random
/// time, certificates are renewed at different times. `chance` is a random number from 0 to 1.
pub(super) fn renewal_at(validity: &Validity, chance: f64) -> SystemTime {
    let lifetime = validity.not_after.duration_since(validity.not_before).unwrap_or_default();
    let left = lifetime / 3;
    let ahead = left + (left / 10).mul_f64(chance.clamp(0.0, 1.0));
    validity.not_after.checked_sub(ahead).unwrap_or(validity.not_before)
}

/// Returns a random time in the renewal window that the issuer suggests (RFC 9773 §4.2). `chance` is a
/// random number from 0 to 1.
pub(super) fn random_time_between(start: SystemTime, end: SystemTime, chance: f64) -> SystemTime {
    let width = end.duration_since(start).unwrap_or_default();
    start + width.mul_f64(chance.clamp(0.0, 1.0))
}

/// Returns the delay after `failures` consecutive failures. The delay doubles with each failure, up to
/// `pace.retry_max`. A random time of up to a quarter of the delay is added. The delay is not shorter than
/// `server_wait`, the `Retry-After` of the ACME server. A `server_wait` of more than one day counts as one
/// day.
pub(super) fn retry_after(
    failures: u32,
    server_wait: Option<Duration>,
    pace: &Pace,
    chance: f64,
) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    let backoff = pace.retry_first.saturating_mul(1 << doublings).min(pace.retry_max);
    let backoff = backoff + (backoff / 4).mul_f64(chance.clamp(0.0, 1.0));
    backoff.max(server_wait.unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// Maximum delay that an ACME server can request with `Retry-After`. A longer delay may be a mistake of the
/// server.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn renewal_is_due_when_a_third_of_the_lifetime_is_left() {
        let not_before = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let validity = Validity { not_before, not_after: not_before + 90 * DAY };
        assert_eq!(renewal_at(&validity, 0.0), not_before + 60 * DAY);
        assert_eq!(renewal_at(&validity, 1.0), not_before + 57 * DAY);
        let reversed = Validity { not_before, not_after: not_before - DAY };
        assert_eq!(renewal_at(&reversed, 0.5), not_before - DAY);
        let early = Validity { not_before: SystemTime::UNIX_EPOCH, not_after: SystemTime::UNIX_EPOCH };
        assert_eq!(renewal_at(&early, 1.0), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn random_renewal_time_is_inside_suggested_window() {
        let start = SystemTime::UNIX_EPOCH + 1000 * DAY;
        assert_eq!(random_time_between(start, start + 2 * DAY, 0.5), start + DAY);
        assert_eq!(random_time_between(start, start - DAY, 0.5), start);
    }

    #[test]
    fn retry_delay_doubles_per_failure_and_honors_retry_after() {
        let pace = Pace::default();
        let after = |failures, requested| retry_after(failures, requested, &pace, 0.0);
        let minutes = [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360];
        for (failures, minutes) in (0..).zip(minutes) {
            assert_eq!(after(failures, None), Duration::from_mins(minutes), "{failures}");
        }
        assert_eq!(after(u32::MAX, None), pace.retry_max);
        assert_eq!(retry_after(1, None, &pace, 1.0), Duration::from_secs(75));
        assert_eq!(after(1, Some(Duration::from_hours(1))), Duration::from_hours(1));
        assert_eq!(after(5, Some(Duration::from_secs(1))), Duration::from_mins(16));
        assert_eq!(after(1, Some(Duration::MAX)), DAY);
    }
}
