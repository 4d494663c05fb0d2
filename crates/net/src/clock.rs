//! Clock from which all code of the server reads the time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::time::Instant;

/// Clock that returns the time as a duration since an arbitrary, fixed moment. Each worker has its own
/// clock.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(ManualTime),
    Tokio(Rc<TokioTime>),
}

/// The moment at which a clock with the time of tokio was created.
#[derive(Debug)]
struct TokioTime {
    start: Instant,
    /// Time of day at `start`, since the Unix epoch.
    time_of_day: Duration,
}

/// Time for tests. The time advances only when the test calls [`advance`](Self::advance).
///
/// ```
/// use std::time::Duration;
///
/// use thruway_net::{Clock, ManualTime};
///
/// let time = ManualTime::default();
/// let clock = Clock::manual(time.clone());
/// time.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualTime(Rc<Cell<Duration>>);

impl Clock {
    /// Returns a clock that reads the monotonic clock of the operating system.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Returns a clock that shows `time`.
    pub const fn manual(time: ManualTime) -> Self {
        Self(Source::Manual(time))
    }

    /// Returns a clock that follows the time of tokio, which a test can pause and advance
    /// (`tokio::time::pause`). The time of day starts with the real time of day.
    pub fn tokio() -> Self {
        let time_of_day = since_zero(clock_gettime(ClockId::Realtime));
        Self(Source::Tokio(Rc::new(TokioTime { start: Instant::now(), time_of_day })))
    }

    /// Returns the time, with a precision of a few milliseconds. This precision is enough for deadlines,
    /// and the call is cheap enough for every batch of input.
    #[inline]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::System => since_zero(clock_gettime(ClockId::MonotonicCoarse)),
            Source::Manual(time) => time.0.get(),
            Source::Tokio(time) => time.start.elapsed(),
        }
    }

    /// Returns the time, with a precision of nanoseconds, for measurements.
    pub fn now_exact(&self) -> Duration {
        match &self.0 {
            Source::System => since_zero(clock_gettime(ClockId::Monotonic)),
            Source::Manual(time) => time.0.get(),
            Source::Tokio(time) => time.start.elapsed(),
        }
    }

    /// Returns the date and time, with a precision of nanoseconds, for measurements.
    pub fn time_of_day_exact(&self) -> SystemTime {
        match &self.0 {
            Source::System => SystemTime::UNIX_EPOCH + since_zero(clock_gettime(ClockId::Realtime)),
            Source::Manual(_) | Source::Tokio(_) => self.time_of_day(),
        }
    }

    /// Returns the date and time, with a precision of a few milliseconds. Manual time starts at the Unix
    /// epoch.
    pub fn time_of_day(&self) -> SystemTime {
        let since_epoch = match &self.0 {
            Source::System => since_zero(clock_gettime(ClockId::RealtimeCoarse)),
            Source::Manual(time) => time.0.get(),
            Source::Tokio(time) => time.time_of_day + time.start.elapsed(),
        };
        SystemTime::UNIX_EPOCH + since_epoch
    }
}

/// Returns the CPU time that all threads of this process have used.
pub fn process_cpu_time() -> Duration {
    since_zero(clock_gettime(ClockId::ProcessCPUTime))
}

impl ManualTime {
    /// Advances the time by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.0.set(self.0.get() + duration);
    }
}

/// Converts a time from a clock of the operating system. The time is never negative.
fn since_zero(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_changes_only_when_advanced() {
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
    fn clock_of_tokio_starts_at_zero_with_real_time_of_day() {
        let before = Clock::system().time_of_day_exact();
        let clock = Clock::tokio();
        assert!(clock.now() < Duration::from_hours(1));
        assert!(
            clock.time_of_day() >= before && clock.time_of_day_exact() < before + Duration::from_hours(1)
        );
    }

    #[test]
    fn system_time_never_goes_back() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first && clock.now_exact() >= first);
    }
}
