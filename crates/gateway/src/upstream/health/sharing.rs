//! Health news that the gateways of a fleet exchange. The gateways then check each server together: a gateway
//! skips its own check if the result of another gateway arrives first.
//!
//! A gateway whose own network has failed must not take servers away from all gateways. So a failed check elsewhere
//! does not replace the own check of a healthy server, and an ejection elsewhere only makes the next failure eject the
//! server.
//!
//! ```text
//! check, ejection ─▶ HealthSharing ─▶ receiver of `HealthSharing::new` ─▶ other gateways
//! other gateways ─▶ Upstream::apply_health_news ─▶ check task, ejection
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Outcome of a health check. The error is the reason why the check failed.
pub(crate) type CheckOutcome = Result<(), String>;

/// News about the health of one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthNews {
    /// Name of the upstream.
    pub upstream: Arc<str>,
    /// Address of the server.
    pub server: Arc<str>,
    /// The event.
    pub event: HealthEvent,
}

/// Event in the health of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HealthEvent {
    /// A health check has ended. The error is the reason why the check failed.
    Checked(Result<(), String>),
    /// The server was ejected.
    Ejected {
        /// The last failure before the ejection.
        cause: String,
    },
    /// The server has responded after an ejection.
    Returned,
}

/// Passes the health news of this process on, while sharing is enabled.
#[derive(Debug)]
pub struct HealthSharing {
    is_enabled: AtomicBool,
    news: Sender<HealthNews>,
    sent: AtomicU64,
    dropped: AtomicU64,
    skipped_checks: AtomicU64,
}

/// Numbers since the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HealthSharingCounts {
    /// News for other gateways.
    pub sent: u64,
    /// News that were lost, because too many news waited for the store.
    pub dropped: u64,
    /// Health checks that this process did not make, because it used the results of other gateways.
    pub skipped_checks: u64,
}

impl HealthSharing {
    /// Returns a value that is disabled, and the receiver of the news.
    pub fn new() -> (Arc<Self>, Receiver<HealthNews>) {
        let (news, receiver) = channel(WAITING_MAX);
        let sharing = Self {
            is_enabled: AtomicBool::new(false),
            news,
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            skipped_checks: AtomicU64::new(0),
        };
        (Arc::new(sharing), receiver)
    }

    /// Enables or disables the news.
    pub fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    /// Passes news on. Drops the news if sharing is disabled, or if too many news wait.
    pub(crate) fn send(&self, upstream: &Arc<str>, server: &Arc<str>, event: impl FnOnce() -> HealthEvent) {
        if self.is_enabled() {
            let (upstream, server) = (upstream.clone(), server.clone());
            let sent = self.news.try_send(HealthNews { upstream, server, event: event() });
            let count = if sent.is_ok() { &self.sent } else { &self.dropped };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a health check that another gateway has made for this process.
    pub(crate) fn count_skipped_check(&self) {
        self.skipped_checks.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if the news are enabled.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Returns the numbers since the start.
    pub fn counts(&self) -> HealthSharingCounts {
        HealthSharingCounts {
            sent: self.sent.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            skipped_checks: self.skipped_checks.load(Ordering::Relaxed),
        }
    }
}

/// Results of health checks by other gateways, for the check task of a server.
#[derive(Debug)]
pub(crate) struct ForeignChecks(Receiver<CheckOutcome>);

impl ForeignChecks {
    /// Returns the sender and the receiver of the results for one server.
    pub(crate) fn new() -> (Sender<CheckOutcome>, Self) {
        let (sender, receiver) = channel(WAITING_CHECKS_MAX);
        (sender, Self(receiver))
    }

    /// Waits for the next result. Never completes after another task has taken over the checks of the server.
    pub(crate) async fn next(&mut self) -> CheckOutcome {
        match self.0.recv().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

/// Returns the start of a text from another gateway, without control characters.
pub(crate) fn foreign(text: &str) -> String {
    let text: String = text.chars().filter(|char| !char.is_control()).take(TEXT_CHARS_MAX).collect();
    format!("{text} (reported by another gateway)")
}

/// Maximum number of news that wait for the receiver.
const WAITING_MAX: usize = 1024;

/// Maximum number of results that wait for the check task of a server.
const WAITING_CHECKS_MAX: usize = 8;

/// Maximum number of characters of a reason from another gateway.
const TEXT_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_another_gateway_is_short_and_has_no_control_characters() {
        assert_eq!(foreign("status 503"), "status 503 (reported by another gateway)");
        let text = foreign(&format!("a\nb\u{1b}[31m{}", "x".repeat(1000)));
        assert!(text.starts_with("ab[31mxxx") && text.len() < 300, "{text}");
    }

    #[test]
    fn disabled_sharing_passes_no_news_on() {
        let (sharing, mut news) = HealthSharing::new();
        let send = || sharing.send(&"a".into(), &"b".into(), || HealthEvent::Returned);
        send();
        assert!(news.try_recv().is_err());
        sharing.enable(true);
        (0..2 * WAITING_MAX).for_each(|_| send());
        assert_eq!(news.try_recv().unwrap().event, HealthEvent::Returned);
        let waiting = WAITING_MAX as u64;
        let counts = HealthSharingCounts { sent: waiting, dropped: waiting, skipped_checks: 0 };
        assert_eq!(sharing.counts(), counts);
    }
}
