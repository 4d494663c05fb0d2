//! One server of an upstream, and how it is doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use thruway_client::UpstreamAddr;

use crate::upstream::health::condition::{Checked, Condition};
use crate::upstream::health::ejection::{Admission, milliseconds};
use crate::upstream::request_key::hash;
use crate::upstream::selection::sticky::SetCookie;
use crate::upstream::{EjectionConfig, ServerConfig, Standing, UpstreamConfig};

/// A server of an upstream, as the config of that has it, and how it is doing.
#[derive(Debug)]
pub(crate) struct Server {
    /// Tells it from all others of the process, also from those that were there before.
    pub(crate) number: usize,
    pub(crate) address: UpstreamAddr,
    /// The same, for records of requests.
    pub(crate) label: Arc<str>,
    /// Which of the configured servers it comes from.
    pub(crate) origin: usize,
    pub(crate) weight: u32,
    pub(crate) is_backup: bool,
    /// What is hashed together with keys: the same in every process.
    pub(crate) seed: u64,
    /// What a sticky cookie calls it, and how the cookie is set.
    pub(crate) token: u64,
    pub(crate) set_cookie: Option<SetCookie>,
    /// `usize::MAX` for any number.
    requests_max: usize,
    ejection_config: EjectionConfig,
    slow_start: u64,
    pub(crate) condition: Arc<Condition>,
    /// `true` if the newest connection to it ends at a listener of this process.
    leads_back: AtomicBool,
    /// `true` once a loop through this server is in the log.
    has_logged_loop: AtomicBool,
}

impl Server {
    /// A server at `address`, which the configured server `origin` has. Nothing is known of it yet.
    pub(crate) fn new(upstream: &UpstreamConfig, origin: usize, address: UpstreamAddr) -> Self {
        Self::known(upstream, origin, address, Arc::default())
    }

    /// The same, of which it is known how it is doing.
    pub(crate) fn known(
        upstream: &UpstreamConfig,
        origin: usize,
        address: UpstreamAddr,
        condition: Arc<Condition>,
    ) -> Self {
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        let config = &upstream.servers[origin];
        let sticky = upstream.sticky.as_ref();
        let token = sticky.map_or(0, |sticky| sticky.token_of(&upstream.name, &address));
        Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            origin,
            weight: config.weight.min(ServerConfig::WEIGHT_MAX),
            is_backup: config.is_backup,
            label: address.to_string().into(),
            seed: hash(address.to_string().as_bytes()),
            token,
            set_cookie: sticky.map(|sticky| sticky.set_cookie(token)),
            requests_max: if config.requests_max == 0 { usize::MAX } else { config.requests_max },
            ejection_config: upstream.ejection.clone(),
            slow_start: milliseconds(upstream.slow_start),
            condition,
            address,
            leads_back: AtomicBool::new(false),
            has_logged_loop: AtomicBool::new(false),
        }
    }

    /// Notes whether a new connection to the server ends at a listener of this process.
    pub(crate) fn set_leads_back(&self, leads_back: bool) {
        if self.leads_back() != leads_back {
            self.leads_back.store(leads_back, Ordering::SeqCst);
        }
    }

    /// Returns `true` if the server is a listener of this process. Known after the first connection to it.
    #[inline]
    pub(crate) fn leads_back(&self) -> bool {
        self.leads_back.load(Ordering::SeqCst)
    }

    /// Logs a loop through this server, once: clients decide how many requests run into it.
    #[cold]
    pub(crate) fn log_loop(&self, upstream: &str) {
        if !self.has_logged_loop.swap(true, Ordering::Relaxed) {
            tracing::error!(
                upstream,
                server = %self.address,
                "a loop was stopped: this server is a listener of this gateway, and the request came from it"
            );
        }
    }

    /// How many requests it is answering.
    pub(crate) fn in_flight(&self) -> usize {
        self.condition.in_flight.load(Ordering::Relaxed)
    }

    /// Whether it may be answering one more request.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.condition.in_flight.load(Ordering::SeqCst) < self.requests_max
    }

    /// Counts one more request that it is answering, until it [ends](Self::end); unless that is refused.
    pub(crate) fn begin(&self, now: u64) -> Admission {
        // What is counted is in one order with what waits in the queue.
        let before = self.condition.in_flight.fetch_add(1, Ordering::SeqCst);
        let admission = if before < self.requests_max {
            self.condition.ejection.admit(&self.ejection_config, now)
        } else {
            Admission::Refused
        };
        if admission == Admission::Refused {
            self.end();
        }
        admission
    }

    /// One request less.
    pub(crate) fn end(&self) {
        self.condition.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether it may get requests.
    #[inline]
    pub(crate) fn is_available(&self, now: u64) -> bool {
        self.condition.ejection.is_over(now)
            && !self.is_down()
            && self.condition.asks_to_wait_until.load(Ordering::Relaxed) <= now
    }

    /// Whether checks have found it down.
    pub(crate) fn is_down(&self) -> bool {
        self.condition.checked() == Checked::Down
    }

    /// Notes what checks have found. A server that they find up is ejected no longer.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.condition.set_checked(if is_down { Checked::Down } else { Checked::Up });
        if is_down {
            self.condition.note_setback();
        } else {
            self.condition.ejection.end();
        }
    }

    /// It wants nothing for `time`, it says.
    pub(crate) fn asks_to_wait(&self, time: Duration, now: u64) {
        let until = now + milliseconds(time.min(WAIT_MAX));
        self.condition.asks_to_wait_until.store(until, Ordering::Relaxed);
    }

    /// It has come back, and starts slowly if that is wanted.
    pub(crate) fn come_back(&self, now: u64) {
        self.condition.back_since.store(now.max(1), Ordering::Relaxed);
    }

    /// When it has come back; 0 if it never was away.
    pub(crate) fn back_since(&self) -> u64 {
        self.condition.back_since.load(Ordering::Relaxed)
    }

    /// Whether anybody but those that a sticky cookie brings may be sent there, if it is well.
    #[inline]
    pub(crate) fn takes_new_clients(&self) -> bool {
        self.weight > 0 && self.condition.standing.get() == Standing::Enabled
    }

    /// How many of a hundred requests that it would get it should get.
    #[inline]
    pub(crate) fn percent_wanted(&self, now: u64) -> u64 {
        if self.slow_start == 0 {
            return 100;
        }
        percent_wanted(self.back_since(), self.slow_start, now)
    }
}

/// A tenth at the beginning, as nobody learns that a server can do more from one that does nothing.
fn percent_wanted(back_since: u64, slow_start: u64, now: u64) -> u64 {
    if back_since == 0 {
        return 100;
    }
    (now.saturating_sub(back_since).saturating_mul(100) / slow_start).clamp(10, 100)
}

/// A server that asks for more is asked again after this.
const WAIT_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
impl Server {
    pub(crate) fn begin_for_test(&self) {
        self.condition.in_flight.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let config = UpstreamConfig::new("a", ["127.0.0.1:1".parse().unwrap()]);
        let config = UpstreamConfig { slow_start: Duration::from_secs(10), ..config };
        Server::new(&config, 0, "127.0.0.1:1".parse().unwrap())
    }

    #[test]
    fn a_server_that_asks_to_wait_is_left_alone_for_that_long_but_not_for_ever() {
        let server = server();
        server.asks_to_wait(Duration::from_secs(3), 1_000);
        assert!(!server.is_available(3_999));
        assert!(server.is_available(4_000));
        server.asks_to_wait(Duration::MAX, 4_000);
        assert!(!server.is_available(13_999));
        assert!(server.is_available(14_000));
    }

    #[test]
    fn a_server_that_has_come_back_wants_more_and_more() {
        let server = server();
        assert_eq!(server.percent_wanted(5), 100, "it never was away");
        server.come_back(20_000);
        let wanted = [20_000, 21_000, 25_000, 29_990, 30_000, 99_000].map(|now| server.percent_wanted(now));
        assert_eq!(wanted, [10, 10, 50, 99, 100, 100]);
    }
}
