//! Results of a load by stage.

use std::sync::Arc;
use std::time::Duration;

use crate::lateness::Lateness;
use crate::stages::{StageUnit, Stages};
use crate::times::Times;

/// Results of the requests of one stage. A request belongs to the stage of its scheduled start.
#[derive(Clone, Debug)]
pub struct StageRecord {
    /// Number of requests with the expected response.
    pub answered: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Times from the scheduled start of a request to the end of its response.
    pub response: Times,
    /// Data about growing response times. Only an open loop has this data.
    lateness: Option<Lateness>,
}

impl StageRecord {
    /// Returns the rate of requests with the expected response, in requests per second. `duration` is the
    /// duration of the stage. A stage without a duration has the rate 0.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn achieved_requests_per_second(&self, duration: Duration) -> f64 {
        if duration.is_zero() {
            return 0.0;
        }
        let share_done = self.lateness.as_ref().map_or(1.0, Lateness::share_done);
        let kept_up_with = (self.answered + self.failed) as f64 * share_done;
        kept_up_with.min(self.answered as f64) / duration.as_secs_f64()
    }
}

/// Results of all stages of a load.
#[derive(Clone, Debug)]
pub struct StageRecords {
    stages: Arc<Stages>,
    records: Vec<StageRecord>,
    /// Index of the stage of the last request.
    current: usize,
}

impl StageRecords {
    /// Creates empty records.
    pub(crate) fn new(stages: Arc<Stages>) -> Self {
        let is_open = stages.unit() == StageUnit::RequestsPerSecond;
        let records = stages.ramps().iter().map(|ramp| StageRecord {
            answered: 0,
            failed: 0,
            response: Times::exact(),
            lateness: is_open.then(|| Lateness::new(ramp.duration)),
        });
        Self { records: records.collect(), stages, current: 0 }
    }

    /// Returns the results of each stage.
    pub fn records(&self) -> &[StageRecord] {
        &self.records
    }

    /// Records a request. `at` is the scheduled start, counted from the start of the load. `response` is the
    /// response time, or `None` if the request has no response time.
    pub(crate) fn record(&mut self, at: Duration, is_answered: bool, response: Option<Duration>) {
        let start = self.stages.ramps()[self.current].start;
        if at < start || self.stages.ramps().get(self.current + 1).is_some_and(|next| next.start <= at) {
            self.current = self.stages.index_at(at);
        }
        let record = &mut self.records[self.current];
        record.answered += u64::from(is_answered);
        record.failed += u64::from(!is_answered);
        let Some(response) = response else { return };
        record.response.record(response);
        if let Some(lateness) = &mut record.lateness {
            let start = self.stages.ramps()[self.current].start;
            lateness.record(at.saturating_sub(start), response);
        }
    }

    /// Adds the results of another worker with the same stages.
    pub(crate) fn add(&mut self, other: &Self) {
        for (record, more) in self.records.iter_mut().zip(&other.records) {
            record.answered += more.answered;
            record.failed += more.failed;
            record.response.add(&more.response);
            if let (Some(lateness), Some(more)) = (&mut record.lateness, &more.lateness) {
                lateness.add(more);
            }
        }
    }
}
