//! Stages of a load: targets that change linearly over time.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use crate::duration::{DURATION_MAX, parse_pause};

/// A load with stages. In each stage, the load changes linearly from the target of the previous stage to the
/// target of this stage.
///
/// The text form is a list of `DURATION:TARGET`. A target is a number of requests per second (open loop), or a
/// number of connections with the suffix `c` (closed loop). A load starts at 0. A stage with the duration `0s`
/// changes the load at once.
///
/// ```
/// use std::time::Duration;
/// use thruway_bench::Stages;
///
/// let stages: Stages = "30s:100,1m:500".parse()?;
/// assert_eq!(stages.duration(), Duration::from_secs(90));
/// assert_eq!(stages.target_at(Duration::from_secs(60)), 300.0);
/// assert_eq!("10s:8c".parse::<Stages>()?.connections_max(), Some(8));
/// # Ok::<(), thruway_bench::InvalidStages>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Stages {
    unit: StageUnit,
    ramps: Vec<Ramp>,
    duration: Duration,
    /// Number of requests until the end. 0 if the unit is connections.
    requests: f64,
}

/// Unit of the targets of stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageUnit {
    /// Requests per second, in an open loop.
    RequestsPerSecond,
    /// Active connections, in a closed loop.
    Connections,
}

/// One stage, with its position among the stages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ramp {
    /// Start, counted from the start of the load.
    pub(crate) start: Duration,
    pub(crate) duration: Duration,
    /// Value at the start.
    pub(crate) from: f64,
    /// Value at the end.
    pub(crate) to: f64,
    /// Number of requests before this stage.
    requests_before: f64,
}

impl Ramp {
    fn requests(&self) -> f64 {
        f64::midpoint(self.from, self.to) * self.duration.as_secs_f64()
    }

    /// Returns the time in this stage at which the number of requests since its start reaches `requests`.
    fn time_of(&self, requests: f64) -> Duration {
        let growth = (self.to - self.from) / self.duration.as_secs_f64();
        // This form of the solution of the quadratic equation has no division by a growth of 0.
        let root = (self.from * self.from + 2.0 * growth * requests).max(0.0).sqrt();
        let seconds = if requests == 0.0 { 0.0 } else { 2.0 * requests / (self.from + root) };
        Duration::try_from_secs_f64(seconds).unwrap_or(self.duration).min(self.duration)
    }

    /// Returns the time in this stage at which the value reaches `value`, or `None` if it never does.
    fn time_of_value(&self, value: f64) -> Option<Duration> {
        if self.from >= value {
            return Some(Duration::ZERO);
        }
        (self.to >= value).then(|| self.duration.mul_f64((value - self.from) / (self.to - self.from)))
    }
}

impl Stages {
    /// Maximum number of stages.
    pub const COUNT_MAX: usize = 100;

    fn new(unit: StageUnit, targets: impl Iterator<Item = (Duration, f64)>) -> Self {
        let mut stages = Self { unit, ramps: Vec::new(), duration: Duration::ZERO, requests: 0.0 };
        let mut from = 0.0;
        for (duration, to) in targets {
            let ramp = Ramp { start: stages.duration, duration, from, to, requests_before: stages.requests };
            stages.duration += duration;
            if unit == StageUnit::RequestsPerSecond {
                stages.requests += ramp.requests();
            }
            stages.ramps.push(ramp);
            from = to;
        }
        stages
    }

    /// Returns the unit of the targets.
    pub const fn unit(&self) -> StageUnit {
        self.unit
    }

    /// Returns the duration of all stages together.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the average number of requests per second, or `None` if the unit is connections.
    pub fn average_rate(&self) -> Option<f64> {
        (self.unit == StageUnit::RequestsPerSecond).then(|| self.requests / self.duration.as_secs_f64())
    }

    /// Returns the highest number of active connections, or `None` if the unit is requests.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a parsed integer")]
    pub fn connections_max(&self) -> Option<u32> {
        let highest = self.ramps.iter().map(|ramp| ramp.to).fold(0.0, f64::max);
        (self.unit == StageUnit::Connections).then_some(highest as u32)
    }

    /// Returns the value at the time `at`, counted from the start of the load. After the last stage, this is the last target.
    pub fn target_at(&self, at: Duration) -> f64 {
        let ramp = &self.ramps[self.index_at(at)];
        if ramp.duration.is_zero() {
            return ramp.to;
        }
        let share = at.saturating_sub(ramp.start).as_secs_f64() / ramp.duration.as_secs_f64();
        ramp.from + (ramp.to - ramp.from) * share.min(1.0)
    }

    /// Returns the index of the stage at the time `at`.
    pub(crate) fn index_at(&self, at: Duration) -> usize {
        self.ramps.partition_point(|ramp| ramp.start <= at).saturating_sub(1)
    }

    pub(crate) fn ramps(&self) -> &[Ramp] {
        &self.ramps
    }

    /// Returns the start time of the request number `place`, which may be a fraction. Returns the end of the
    /// last stage if the stages have fewer requests.
    pub(crate) fn start_of_request(&self, place: f64) -> Duration {
        let next = self.ramps.partition_point(|ramp| ramp.requests_before + ramp.requests() <= place);
        let Some(ramp) = self.ramps.get(next) else { return self.duration };
        ramp.start + ramp.time_of(place - ramp.requests_before)
    }

    /// Returns the first time from `now` on at which more than `number` connections are active. Returns
    /// `None` if there is no such time.
    #[expect(clippy::cast_precision_loss, reason = "connections are few")]
    pub(crate) fn next_active(&self, number: usize, now: Duration) -> Option<Duration> {
        let needed = (number + 1) as f64;
        let current = self.index_at(now);
        if now < self.duration && self.target_at(now) + ROUNDING >= needed {
            return Some(now);
        }
        let later = self.ramps.iter().enumerate().skip(current);
        later.filter(|(_, ramp)| !ramp.duration.is_zero()).find_map(|(index, ramp)| {
            // In the current stage, a value that falls was high enough only in the past.
            let is_past = index == current && ramp.to < needed;
            let at = ramp.time_of_value(needed).filter(|_| !is_past)?;
            Some((ramp.start + at).max(now)).filter(|at| *at < ramp.start + ramp.duration)
        })
    }
}

impl Display for Stages {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let suffix = if self.unit == StageUnit::Connections { "c" } else { "" };
        for (index, ramp) in self.ramps.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let duration = humantime::format_duration(ramp.duration).to_string().replace(' ', "");
            write!(f, "{comma}{duration}:{}{suffix}", ramp.to)?;
        }
        Ok(())
    }
}

impl FromStr for Stages {
    type Err = InvalidStages;

    fn from_str(text: &str) -> Result<Self, InvalidStages> {
        parse(text).map_err(InvalidStages)
    }
}

/// The text of stages is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidStages(String);

impl Display for InvalidStages {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidStages {}

fn parse(text: &str) -> Result<Stages, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > Stages::COUNT_MAX {
        return Err(format!("{} stages are too many: the maximum is {}", parts.len(), Stages::COUNT_MAX));
    }
    let stages = parts.into_iter().map(parse_stage).collect::<Result<Vec<_>, _>>()?;
    let unit = stages[0].0;
    if stages.iter().any(|(other, ..)| *other != unit) {
        return Err("a load has either rates (`30s:100`) or connections (`30s:10c`), not both".to_owned());
    }
    let stages = Stages::new(unit, stages.into_iter().map(|(_, duration, target)| (duration, target)));
    if stages.duration.is_zero() || stages.duration > DURATION_MAX {
        return Err("all stages together must take more than 0 s and less than a year".to_owned());
    }
    if stages.ramps.iter().all(|ramp| ramp.to == 0.0) {
        return Err("at least one target must be more than 0".to_owned());
    }
    Ok(stages)
}

fn parse_stage(text: &str) -> Result<(StageUnit, Duration, f64), String> {
    let invalid = |expected: &str| format!("invalid stage `{}`: expected {expected}", text.escape_debug());
    let (duration, target) =
        text.split_once(':').ok_or_else(|| invalid("`DURATION:TARGET`, such as `30s:100`"))?;
    let duration =
        parse_pause(duration).map_err(|_| invalid("a duration before the colon, such as `30s`"))?;
    let (unit, target) = match target.strip_suffix('c') {
        None => (StageUnit::RequestsPerSecond, target.parse().ok().filter(|rate| (0.0..=1e9).contains(rate))),
        Some(target) => {
            let connections = target.parse().ok().filter(|connections: &u32| *connections <= CONNECTIONS_MAX);
            (StageUnit::Connections, connections.map(f64::from))
        }
    };
    let target = target.ok_or_else(|| {
        invalid("requests per second (`100`) or connections (`10c`) after the colon, up to 1000000000 or 1000000c")
    })?;
    Ok((unit, duration, target))
}

const CONNECTIONS_MAX: u32 = 1_000_000;

/// Allowance for rounding errors, so that a connection wakes in time.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(text: &str) -> Stages {
        text.parse().unwrap()
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn rate_grows_linearly_and_requests_follow_its_integral() {
        let stages = stages("10s:100,20s:100,0s:10,10:0");
        assert_eq!(stages.duration(), seconds(40.0));
        assert_eq!(stages.to_string(), "10s:100,20s:100,0s:10,10s:0");
        // 500, 2,000 and 50 requests.
        assert!((stages.average_rate().unwrap() - 2550.0 / 40.0).abs() < 1e-9);
        for (place, at) in [(0.0, 0.0), (125.0, 5.0), (500.0, 10.0), (600.0, 11.0), (2500.0, 30.0)] {
            let start = stages.start_of_request(place);
            assert!(start.abs_diff(seconds(at)) < Duration::from_micros(1), "{place}: {start:?}");
        }
        // The last stage goes from 10 to 0 within 10 seconds, so half of its requests start in 2.93 seconds.
        assert!(stages.start_of_request(2525.0).abs_diff(seconds(32.929)) < seconds(0.001));
        assert_eq!(stages.start_of_request(2551.0), seconds(40.0));
        assert!((stages.target_at(seconds(5.0)) - 50.0).abs() < 1e-9);
        assert!((stages.target_at(seconds(35.0)) - 5.0).abs() < 1e-9);
        assert_eq!((stages.index_at(seconds(9.0)), stages.index_at(seconds(31.0))), (0, 3));
    }

    #[test]
    fn start_value_and_pause_are_respected() {
        let stages = stages("0s:10,1s:10,0s:0,1s:0,0s:10,1s:10");
        assert_eq!(stages.start_of_request(0.0), Duration::ZERO);
        assert_eq!(stages.start_of_request(5.0), seconds(0.5));
        assert_eq!(stages.start_of_request(10.0), seconds(2.0), "no request starts in the pause");
        assert_eq!(stages.start_of_request(15.0), seconds(2.5));
    }

    #[test]
    fn connections_become_active_one_after_another() {
        let stages = stages("10s:5c,0s:1c,10s:1c,10s:3c");
        assert_eq!((stages.connections_max(), stages.average_rate()), (Some(5), None));
        assert_eq!(stages.next_active(0, Duration::ZERO), Some(seconds(2.0)));
        assert_eq!(
            stages.next_active(4, Duration::ZERO),
            None,
            "the value 5 is reached only at the end of the stage"
        );
        assert_eq!(stages.next_active(3, seconds(1.0)), Some(seconds(8.0)));
        assert_eq!(stages.next_active(0, seconds(15.0)), Some(seconds(15.0)));
        assert_eq!(stages.next_active(1, seconds(15.0)), Some(seconds(25.0)));
        assert_eq!(stages.next_active(2, seconds(15.0)), None);
    }

    #[test]
    fn invalid_stages_are_explained() {
        for (text, error) in [
            ("", "invalid stage ``: expected `DURATION:TARGET`, such as `30s:100`"),
            ("30s", "invalid stage `30s`: expected `DURATION:TARGET`, such as `30s:100`"),
            ("x:1", "invalid stage `x:1`: expected a duration before the colon, such as `30s`"),
            ("1s:10,1s:2c", "a load has either rates (`30s:100`) or connections (`30s:10c`), not both"),
            ("0s:10", "all stages together must take more than 0 s and less than a year"),
            ("10s:0", "at least one target must be more than 0"),
        ] {
            assert_eq!(text.parse::<Stages>().unwrap_err().to_string(), error, "{text}");
        }
        for text in
            ["1s:-1", "1s:NaN", "1s:1.5c", "1s:2000000c", "1s:inf", "1s:c", "1s:", "99999999999999999h:1"]
        {
            assert!(text.parse::<Stages>().is_err(), "{text}");
        }
        assert!(vec!["1s:1"; 101].join(",").parse::<Stages>().is_err());
    }
}
