//! The results so far of a running load, for the screen.

use std::time::Duration;

use crate::over_time::OverTime;
use crate::stages::{StageUnit, Stages};
use crate::times::Times;

/// Results of a load so far. Intervals of the workers are the source, so the newest results are missing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProgressDetails {
    /// Median, 90th percentile, 99th percentile and maximum of the response times.
    pub times: [Duration; 4],
    /// Numbers of responses by response time: the upper limit of each class, and the number. Classes without
    /// responses below the shortest and above the longest time are left out.
    pub histogram: Vec<(Duration, u64)>,
    /// Responses per second over time, the oldest first. At most 120 values.
    pub rates: Vec<f64>,
    /// The stages that have begun.
    pub stages: Vec<StageProgress>,
}

/// Results of a stage so far. A response belongs to the stage at the beginning of its interval, so the numbers are
/// less exact than the numbers in the report.
#[derive(Clone, PartialEq, Debug)]
pub struct StageProgress {
    /// Number of the stage, counted from 1.
    pub number: usize,
    /// The target of the stage, such as `500/s`.
    pub target: String,
    /// Number of responses.
    pub answered: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// 99th percentile of the response times.
    pub p99: Duration,
    /// `true` if the stage is over.
    pub is_finished: bool,
}

impl ProgressDetails {
    /// Returns the results so far. `measured` is the time since the measurement began.
    pub(crate) fn of(over_time: &OverTime, stages: Option<&Stages>, measured: Duration) -> Self {
        let mut all = Times::coarse();
        over_time.parts().for_each(|(_, part)| all.add(&part.response));
        let length = over_time.part_length().as_secs_f64().max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = |(_, part): (Duration, &crate::record::Interval)| part.answered as f64 / length;
        let mut rates: Vec<_> = over_time.parts().rev().skip(1).take(RATES_MAX).map(rate).collect();
        rates.reverse();
        Self {
            times: [50.0, 90.0, 99.0, 100.0].map(|percentile| all.percentile(percentile)),
            histogram: all.by_class(),
            rates,
            stages: stages.map(|stages| of_stages(over_time, stages, measured)).unwrap_or_default(),
        }
    }
}

fn of_stages(over_time: &OverTime, stages: &Stages, measured: Duration) -> Vec<StageProgress> {
    let unit = if stages.unit() == StageUnit::Connections { " connections" } else { "/s" };
    let begun = stages.ramps().iter().enumerate();
    let begun = begun.filter(|(_, ramp)| ramp.start <= measured && !ramp.duration.is_zero());
    begun
        .map(|(index, ramp)| {
            let mut times = Times::coarse();
            let mut stage = StageProgress {
                number: index + 1,
                target: format!("{}{unit}", ramp.to),
                answered: 0,
                failed: 0,
                p99: Duration::ZERO,
                is_finished: measured >= ramp.start + ramp.duration,
            };
            for (_, part) in over_time.parts().filter(|(at, _)| stages.index_at(*at) == index) {
                stage.answered += part.answered;
                stage.failed += part.failed;
                times.add(&part.response);
            }
            StageProgress { p99: times.percentile(99.0), ..stage }
        })
        .collect()
}

const RATES_MAX: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Interval;

    #[test]
    fn results_are_added_up_by_class_and_by_stage() {
        let mut over_time = OverTime::new(Duration::from_millis(100));
        for index in 0..10 {
            let mut interval = Interval { answered: 10, failed: index % 2, ..Interval::new(index) };
            (0..10).for_each(|_| interval.response.record(Duration::from_micros(150 * (1 + index))));
            over_time.add(&interval);
        }
        let stages: Stages = "500ms:100,0s:200,1s:200".parse().unwrap();
        let details = ProgressDetails::of(&over_time, Some(&stages), Duration::from_millis(950));
        assert_eq!(details.histogram.iter().map(|(_, count)| count).sum::<u64>(), 100);
        assert_eq!(details.histogram[0], (Duration::from_micros(200), 10));
        assert_eq!(details.histogram.last().unwrap().0, Duration::from_millis(2));
        // The last part is incomplete.
        assert_eq!(details.rates, [100.0; 9]);
        let stages: Vec<_> = details
            .stages
            .iter()
            .map(|stage| (stage.number, stage.answered, stage.failed, stage.is_finished))
            .collect();
        assert_eq!(stages, [(1, 50, 2, true), (3, 50, 3, false)]);
        assert_eq!(details.stages[0].target, "100/s");
        let empty = ProgressDetails::of(&OverTime::new(Duration::from_secs(1)), None, Duration::ZERO);
        assert_eq!(empty, ProgressDetails::default());
    }
}
