//! The permits of one key on this replica, for requests in flight. This type has no clock.

use super::budget::Demand;
use super::queue::AtTick;

/// The permits that this replica holds for a key, and the requests that use them.
#[derive(Clone, Copy, Default, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and keep the table small")]
pub(super) struct Permits {
    in_flight: u32,
    /// Largest number of requests in flight since the last settlement.
    peak: u32,
    granted: u32,
    /// Number of permits that the current settlement asks for.
    wanted: u32,
    synced_at: u64,
    is_known: bool,
    /// `true` if all permits of the fleet were in use at the last settlement.
    is_full: bool,
    is_settling: bool,
    is_open: bool,
    is_active: bool,
    /// `true` if the current settlement only renews permits.
    is_renewal: bool,
}

impl Permits {
    /// Decides about a request. `max` is the limit of the fleet. `share` is the part of this replica, which applies
    /// until the store has answered. Returns `true` if the request is admitted.
    pub(super) fn enter(&mut self, max: u32, share: u32, now: u64) -> (bool, Demand) {
        self.is_active = true;
        let is_valid = self.is_known && now.saturating_sub(self.synced_at) < PERMIT_TTL;
        let allowed = if is_valid { self.granted } else { share };
        let is_admitted = self.in_flight < allowed.min(max);
        if is_admitted {
            self.add();
        }
        (is_admitted, self.demand(is_valid, is_admitted, max, now))
    }

    /// Counts a request that is admitted without regard to the permits.
    pub(super) fn add(&mut self) {
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
    }

    /// Ends a request.
    pub(super) const fn leave(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Returns the number of requests in flight.
    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the number of permits that this replica holds.
    pub(super) const fn granted(&self) -> u32 {
        self.granted
    }

    fn demand(&mut self, is_valid: bool, is_admitted: bool, max: u32, now: u64) -> Demand {
        if self.is_settling {
            return Demand::None;
        }
        let is_short = !self.is_full && self.granted < max && with_reserve(self.in_flight) > self.granted;
        let may_retry = !is_admitted && now.saturating_sub(self.synced_at) >= RETRY_TIME;
        if !is_valid || is_short || (may_retry && self.granted < max) {
            self.is_settling = true;
            return Demand::Now;
        }
        if self.is_open {
            return Demand::None;
        }
        self.is_open = true;
        Demand::Later
    }

    /// Decides if the background task must renew or return the permits at this tick.
    pub(super) fn at_tick(&mut self, now: u64) -> AtTick {
        if self.is_settling {
            return AtTick::Keep;
        }
        let is_active = std::mem::take(&mut self.is_active) || self.in_flight > 0;
        if !is_active && self.granted == 0 {
            self.is_open = false;
            return AtTick::Remove;
        }
        if is_active && now.saturating_sub(self.synced_at) < RENEWAL_TIME {
            return AtTick::Keep;
        }
        (self.is_settling, self.is_renewal, self.is_open) = (true, true, false);
        self.is_active = is_active;
        AtTick::Settle
    }

    /// Starts a settlement. Returns the number of permits that the replica wants to hold.
    pub(super) fn begin(&mut self, max: u32, share: u32) -> u32 {
        self.is_settling = true;
        let is_renewal = std::mem::take(&mut self.is_renewal);
        let is_idle = self.in_flight == 0 && !self.is_active;
        self.is_active = false;
        let wanted = if is_idle {
            0
        } else if is_renewal && self.is_full && self.granted > share {
            // Offers some permits to replicas without permits.
            self.granted - (self.granted / YIELDED_PART).max(1)
        } else {
            with_reserve(self.peak)
        };
        self.peak = self.in_flight;
        self.wanted = wanted.clamp(self.in_flight.min(max), max);
        // Permits that the replica returns must not be in use.
        self.granted = self.granted.min(self.wanted);
        self.wanted
    }

    /// Ends a settlement with the answer of the store. `is_full` is `true` if the fleet has no permits left. Returns
    /// `true` if the key must join the queue of the tick.
    pub(super) const fn finish(&mut self, granted: u32, is_full: bool, now: u64) -> bool {
        self.granted = granted;
        self.is_full = is_full;
        self.synced_at = now;
        self.is_known = true;
        self.is_settling = false;
        let was_open = self.is_open;
        // The key stays in memory until the next tick without requests, also without permits. Otherwise, its next
        // request would use the share of an unknown key.
        self.is_open = true;
        !was_open
    }

    /// Forgets that a queue contains the key. The replica keeps its permits until they expire.
    pub(super) const fn forget_demand(&mut self) {
        (self.is_settling, self.is_open, self.is_renewal) = (false, false, false);
    }

    /// Returns `true` if no request is in flight and no queue contains the key.
    pub(super) const fn is_unused(&self) -> bool {
        self.in_flight == 0 && !self.is_settling && !self.is_open
    }
}

/// Returns the number of permits to hold for `requests` requests in flight.
const fn with_reserve(requests: u32) -> u32 {
    requests.saturating_add(requests / 4).saturating_add(1)
}

/// Time after which the store takes back permits that a replica does not renew.
pub(super) const PERMIT_TTL: u64 = 3_000_000_000;
const RENEWAL_TIME: u64 = 1_000_000_000;
/// Minimum time between two demands if the fleet has no permits left.
const RETRY_TIME: u64 = 50_000_000;
/// At each renewal, a replica offers this part of its permits if it has more than its share.
const YIELDED_PART: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn settle(permits: &mut Permits, max: u32, others: u32, now: u64) -> u32 {
        let wanted = permits.begin(max, max / 3);
        let granted = wanted.min(max - others);
        permits.finish(granted, granted + others == max, now);
        wanted
    }

    #[test]
    fn replica_uses_its_share_until_the_store_answers() {
        let mut permits = Permits::default();
        assert_eq!(permits.enter(30, 10, SECOND), (true, Demand::Now));
        for _ in 0..9 {
            assert_eq!(permits.enter(30, 10, SECOND), (true, Demand::None));
        }
        assert_eq!(permits.enter(30, 10, SECOND), (false, Demand::None));
        assert_eq!(settle(&mut permits, 30, 0, SECOND), 13);
        assert!(permits.enter(30, 10, SECOND).0);
    }

    #[test]
    fn fleet_never_exceeds_the_limit_after_the_answer() {
        let mut permits = Permits::default();
        permits.enter(30, 10, SECOND);
        settle(&mut permits, 30, 28, SECOND);
        assert!(permits.enter(30, 10, SECOND).0);
        assert_eq!(permits.enter(30, 10, SECOND), (false, Demand::None));
        assert_eq!(permits.enter(30, 10, SECOND + RETRY_TIME), (false, Demand::Now));
    }

    #[test]
    fn idle_replica_returns_its_permits() {
        let mut permits = Permits::default();
        permits.enter(30, 10, SECOND);
        settle(&mut permits, 30, 0, SECOND);
        permits.leave();
        assert_eq!(permits.at_tick(SECOND), AtTick::Settle);
        assert_eq!(settle(&mut permits, 30, 0, SECOND), 0);
        assert_eq!(permits.at_tick(SECOND), AtTick::Remove);
        assert!(permits.is_unused());
    }

    #[test]
    fn renewal_never_returns_permits_in_use() {
        let mut permits = Permits::default();
        permits.enter(8, 8, SECOND);
        (0..7).for_each(|_| permits.add());
        settle(&mut permits, 8, 0, SECOND);
        assert_eq!(permits.at_tick(3 * SECOND), AtTick::Settle);
        assert_eq!(settle(&mut permits, 8, 0, 3 * SECOND), 8);
        permits.leave();
        assert_eq!(permits.at_tick(5 * SECOND), AtTick::Settle);
        assert_eq!(settle(&mut permits, 8, 0, 5 * SECOND), 7, "a full fleet gets a permit back");
    }
}
