//! Results of a scenario by step.

use std::time::Duration;

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
}

impl PartRecord {
    fn new() -> Self {
        Self { answered: 0, failed: 0, response: Times::exact(), example: None }
    }

    /// Records a result. `response` is its time, or `None` if it has no time.
    pub(crate) fn record(&mut self, is_answered: bool, response: Option<Duration>) {
        self.answered += u64::from(is_answered);
        self.failed += u64::from(!is_answered);
        if let Some(response) = response {
            self.response.record(response);
        }
    }

    fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.response.add(&other.response);
        self.example = self.example.take().or_else(|| other.example.clone());
    }
}

impl ScenarioRecord {
    /// Creates empty results for this number of steps.
    pub(crate) fn new(steps: usize) -> Self {
        let steps = std::iter::repeat_with(PartRecord::new).take(steps).collect();
        Self { steps, iterations: PartRecord::new(), iterations_cut_off: 0 }
    }

    /// Adds the results of another worker with the same scenario.
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps.iter_mut().zip(&other.steps).for_each(|(step, more)| step.add(more));
        self.iterations.add(&other.iterations);
        self.iterations_cut_off += other.iterations_cut_off;
    }
}
