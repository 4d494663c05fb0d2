//! The one clock through which time enters.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Tells the time as a duration since an arbitrary, fixed moment. Belongs to one worker.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(ManualTime),
}

/// Time that goes on only when it is told to, for tests.
#[derive(Clone, Debug, Default)]
pub struct ManualTime(Rc<Cell<Duration>>);

impl Clock {
    /// The system's monotonic clock.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `time`.
    pub const fn manual(time: ManualTime) -> Self {
        Self(Source::Manual(time))
    }

    /// The time, exact to a few milliseconds: enough for deadlines, and cheap enough to be asked for with
    /// every batch of input.
    #[inline]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::System => since_zero(clock_gettime(ClockId::MonotonicCoarse)),
            Source::Manual(time) => time.0.get(),
        }
    }

    /// The time, exact to nanoseconds: for what is measured.
    pub fn now_exact(&self) -> Duration {
        match &self.0 {
            Source::System => since_zero(clock_gettime(ClockId::Monotonic)),
            Source::Manual(time) => time.0.get(),
        }
    }

    /// The time of day, exact to a few milliseconds. With manual time, the day begins at the Unix epoch.
    pub fn time_of_day(&self) -> SystemTime {
        let since_epoch = match &self.0 {
            Source::System => since_zero(clock_gettime(ClockId::RealtimeCoarse)),
            Source::Manual(time) => time.0.get(),
        };
        SystemTime::UNIX_EPOCH + since_epoch
    }
}

impl ManualTime {
    /// Lets `duration` pass.
    pub fn advance(&self, duration: Duration) {
        self.0.set(self.0.get() + duration);
    }
}

/// Neither of the clocks goes below zero.
fn since_zero(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_stands_still_until_it_is_advanced() {
        let time = ManualTime::default();
        let clock = Clock::manual(time.clone());
        assert_eq!(clock.now(), Duration::ZERO);
        time.advance(Duration::from_millis(1500));
        assert_eq!(
            (clock.now(), clock.now_exact()),
            (Duration::from_millis(1500), Duration::from_millis(1500))
        );
        assert_eq!(clock.time_of_day(), SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
    }

    #[test]
    fn system_time_does_not_go_back() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first && clock.now_exact() >= first);
    }
}
