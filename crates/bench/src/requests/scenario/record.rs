//! Results of a scenario by step.

use std::sync::Arc;
use std::time::Duration;

use crate::stage_records::StageRecords;
use crate::stages::Stages;
use crate::times::Times;

/// Results of one step, or of all iterations.
#[derive(Clone, Debug)]
pub struct PartRecord {
    /// Number of requests with the expected response, or of complete iterations.
    pub answered: u64,
    /// Number of failed requests, or of iterations with a failed request.
    pub failed: u64,
    /// Times from the scheduled start to the end. The time of an iteration includes think time.
    pub response: Times,
    /// Description of the first failure.
    pub example: Option<String>,
    /// Number of redirects that the users have followed. Always 0 for iterations.
    pub redirects: u64,
}

/// Results of all steps of a scenario, and of its iterations.
#[derive(Clone, Debug)]
pub struct ScenarioRecord {
    /// Results of each step, in the order of the file.
    pub steps: Vec<PartRecord>,
    /// Results of the iterations.
    pub iterations: PartRecord,
    /// Number of iterations in progress at the end of the load. No other counter includes these iterations.
    pub iterations_cut_off: u64,
    /// Results of the iterations by stage, if the load has stages.
    pub iterations_by_stage: Option<StageRecords>,
}

impl PartRecord {
    fn new() -> Self {
        Self { answered: 0, failed: 0, response: Times::exact(), example: None, redirects: 0 }
    }

    /// Records a result. `response` is its time, or `None` if it has no time.
    pub(crate) fn record(&mut self, is_answered: bool, response: Option<Duration>) {
        self.answered += u64::from(is_answered);
        self.failed += u64::from(!is_answered);
        if let Some(response) = response {
            self.response.record(response);
        }
    }

    /// Adds the results of another worker, or of another step.
    pub(crate) fn add(&mut self, other: &Self) {
        self.redirects += other.redirects;
        self.answered += other.answered;
        self.failed += other.failed;
        self.response.add(&other.response);
        self.example = self.example.take().or_else(|| other.example.clone());
    }
}

impl ScenarioRecord {
    /// Creates empty results for this number of steps, and for the stages of the load.
    pub(crate) fn new(steps: usize, stages: Option<Arc<Stages>>) -> Self {
        let steps = std::iter::repeat_with(PartRecord::new).take(steps).collect();
        let iterations_by_stage = stages.map(StageRecords::new);
        Self { steps, iterations: PartRecord::new(), iterations_cut_off: 0, iterations_by_stage }
    }

    /// Adds the results of another worker with the same scenario.
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps.iter_mut().zip(&other.steps).for_each(|(step, more)| step.add(more));
        self.iterations.add(&other.iterations);
        self.iterations_cut_off += other.iterations_cut_off;
        if let (Some(stages), Some(more)) = (&mut self.iterations_by_stage, &other.iterations_by_stage) {
            stages.add(more);
        }
    }
}
