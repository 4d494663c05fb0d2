//! Limits the number of log lines that clients can cause. Lines at debug level need no limit, because they
//! appear only if the operator enables that level.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// Limits how often one message is logged: ten times in ten seconds. Use a separate `static` limit for each
/// message.
///
/// ```
/// use thruway_net::{Admitted, LogLimit};
///
/// fn report(error: &std::io::Error) {
///     static LIMIT: LogLimit = LogLimit::new();
///     if let Some(Admitted { suppressed }) = LIMIT.admit() {
///         tracing::error!(%error, suppressed, "cannot read the file");
///     }
/// }
/// ```
#[derive(Debug)]
pub struct LogLimit(Mutex<Period>);

/// The permission to log a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Number of messages that were suppressed since the last logged message. `None` instead of zero, so that
    /// the field appears in the log only if messages were suppressed.
    pub suppressed: Option<u64>,
}

#[derive(Debug)]
struct Period {
    /// Start of the current period. `None` before the first message.
    since: Option<Duration>,
    lines: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Creates a limit for a message that was not logged yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Period { since: None, lines: 0, suppressed: 0 }))
    }

    /// Returns the permission to log the message now, or `None` if the message was logged too often. Call
    /// this function only for errors, and not for every request, because each call takes a lock.
    pub fn admit(&self) -> Option<Admitted> {
        self.admit_at(Clock::system().now())
    }

    fn admit_at(&self, now: Duration) -> Option<Admitted> {
        // A poisoned lock does no harm, because the counters are plain numbers that a panic cannot corrupt.
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if period.since.is_none_or(|since| now.saturating_sub(since) >= PERIOD) {
            period.since = Some(now);
            period.lines = 0;
        }
        if period.lines == LINES_MAX {
            period.suppressed += 1;
            return None;
        }
        period.lines += 1;
        let suppressed = std::mem::take(&mut period.suppressed);
        Some(Admitted { suppressed: (suppressed > 0).then_some(suppressed) })
    }
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new()
    }
}

const PERIOD: Duration = Duration::from_secs(10);
const LINES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of messages that are admitted at `now`, out of `messages`.
    fn admitted(limit: &LogLimit, messages: u64, now: Duration) -> usize {
        (0..messages).filter_map(|_| limit.admit_at(now)).count()
    }

    #[test]
    fn log_limit_admits_ten_lines_in_ten_seconds() {
        let limit = LogLimit::new();
        let start = Duration::from_secs(1000);
        assert_eq!(admitted(&limit, 300, start), 10);
        assert_eq!(admitted(&limit, 300, start + PERIOD / 2), 0);
        let next = limit.admit_at(start + PERIOD);
        assert_eq!(next, Some(Admitted { suppressed: Some(590) }));
        assert_eq!(admitted(&limit, 300, start + PERIOD), 9);
    }

    #[test]
    fn no_suppressed_count_without_suppressed_messages() {
        let limit = LogLimit::new();
        assert_eq!(limit.admit_at(Duration::ZERO), Some(Admitted { suppressed: None }));
        assert_eq!(limit.admit_at(PERIOD * 9), Some(Admitted { suppressed: None }));
    }
}
