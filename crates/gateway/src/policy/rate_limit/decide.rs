//! Whether there is a token in a bucket. Time comes in as an argument.

use std::time::Duration;

/// How fast a bucket fills, and how much it holds, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// For one token.
    interval: u64,
    /// For all tokens.
    all: u64,
}

impl Rate {
    pub(super) fn new(requests: u32, per: Duration, burst: u32) -> Self {
        let per = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX);
        let interval = (per / u64::from(requests.max(1))).max(1);
        Self { interval, all: interval.saturating_mul(burst.max(1).into()) }
    }

    /// Takes a token from a bucket that will be full at `full_at`: when it will be full then, or how long it takes until there
    /// is a token.
    pub(super) fn take(self, full_at: u64, now: u64) -> Result<u64, Duration> {
        let full_at = full_at.max(now).saturating_add(self.interval);
        match (full_at - now).checked_sub(self.all) {
            None | Some(0) => Ok(full_at),
            Some(too_much) => Err(Duration::from_nanos(too_much)),
        }
    }
}
