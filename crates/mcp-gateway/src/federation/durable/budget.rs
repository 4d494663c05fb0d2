//! The limit on the size of the records that a gateway keeps in its archive.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Counts the bytes of records until they expire. Clients choose how many tasks they begin, so they must not fill the
/// store.
#[derive(Debug)]
pub(super) struct Budget {
    began: Instant,
    max: usize,
    total: usize,
    /// The bytes that expire in each second since `began`.
    expiring: BTreeMap<u64, usize>,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self { began: Instant::now(), max, total: 0, expiring: BTreeMap::new() }
    }

    /// Counts `bytes` for the time `ttl`. Returns `false` if they are above the limit.
    pub(super) fn take(&mut self, bytes: usize, ttl: Duration) -> bool {
        if !self.fits(bytes) {
            return false;
        }
        let now = self.began.elapsed();
        *self.expiring.entry((now + ttl).as_secs()).or_default() += bytes;
        self.total += bytes;
        true
    }

    /// Returns `true` if `bytes` are within the limit.
    pub(super) fn fits(&mut self, bytes: usize) -> bool {
        let now = self.began.elapsed().as_secs();
        while let Some(first) = self.expiring.first_entry().filter(|first| *first.key() < now) {
            self.total -= first.remove();
        }
        bytes <= self.max - self.total
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_count_until_they_expire() {
        let mut budget = Budget::new(100);
        assert!(budget.take(60, Duration::from_secs(10)) && budget.take(40, Duration::from_secs(20)));
        assert!(!budget.take(1, Duration::from_secs(1)));
        advance(Duration::from_secs(12)).await;
        assert!(!budget.take(61, Duration::from_secs(1)) && budget.take(60, Duration::from_secs(1)));
        advance(Duration::from_secs(30)).await;
        assert!(budget.take(100, Duration::ZERO) && budget.expiring.len() == 1);
    }
}
