//! Checks that a load has the part to which a condition applies.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use super::{Part, Threshold};
use crate::requests::Scenario;
use crate::stages::Stages;

impl Threshold {
    /// Checks that the load will have the part to which this condition applies. `stages` and `scenario` are the
    /// stages and the scenario of the load.
    ///
    /// # Errors
    /// Returns an error if the load has no such stage or step, or if the stage has no duration and thus no
    /// requests.
    pub fn check(&self, stages: Option<&Stages>, scenario: Option<&Scenario>) -> Result<(), PartMissing> {
        let number = match &self.part {
            Part::Load => return Ok(()),
            Part::Stage(number) => *number,
            Part::Step(step) => return self.check_step(step, scenario),
        };
        let ramps = stages.map_or(&[][..], Stages::ramps);
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let is_empty = match ramps.get(index) {
            Some(ramp) if !ramp.duration.is_zero() => return Ok(()),
            found => found.is_some(),
        };
        let reason = match ramps.len() {
            0 => MissingBecause::NoStages,
            _ if is_empty => MissingBecause::EmptyStage(number),
            stages => MissingBecause::FewStages(stages),
        };
        Err(PartMissing { condition: self.to_string(), reason })
    }

    fn check_step(&self, step: &str, scenario: Option<&Scenario>) -> Result<(), PartMissing> {
        let names: Vec<_> = scenario.iter().flat_map(|scenario| scenario.step_names()).collect();
        if names.contains(&step) {
            return Ok(());
        }
        let reason = match scenario {
            None => MissingBecause::NoScenario,
            Some(_) => MissingBecause::OtherSteps(format!("`{}`", names.join("`, `"))),
        };
        Err(PartMissing { condition: self.to_string(), reason })
    }
}

/// A condition applies to a stage or a step that the load does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartMissing {
    condition: String,
    reason: MissingBecause,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum MissingBecause {
    NoStages,
    /// The stage with this number has no duration.
    EmptyStage(u64),
    /// The load has only this number of stages.
    FewStages(usize),
    NoScenario,
    /// The scenario has only the steps with these names.
    OtherSteps(String),
}

impl PartMissing {
    /// Returns a hint for the user of `thruway bench`.
    pub fn hint(&self) -> String {
        match &self.reason {
            MissingBecause::NoStages => "add `--stages`, or remove the stage from the condition".to_owned(),
            MissingBecause::EmptyStage(_) => "use the next stage, which begins at the same time".to_owned(),
            MissingBecause::FewStages(1) => "the only stage has the number 1".to_owned(),
            MissingBecause::FewStages(stages) => format!("use a stage from 1 to {stages}"),
            MissingBecause::NoScenario => "only loads of `thruway bench scenario` have steps".to_owned(),
            MissingBecause::OtherSteps(names) => format!("the steps are {names}"),
        }
    }
}

impl Display for PartMissing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "the condition `{}` can never be checked: ", self.condition)?;
        match &self.reason {
            MissingBecause::NoStages => f.write_str("the load has no stages"),
            MissingBecause::EmptyStage(number) => {
                write!(f, "stage {number} has no duration, so it has no requests")
            }
            MissingBecause::FewStages(1) => f.write_str("the load has only one stage"),
            MissingBecause::FewStages(stages) => write!(f, "the load has only {stages} stages"),
            MissingBecause::NoScenario => f.write_str("the load has no scenario"),
            MissingBecause::OtherSteps(_) => f.write_str("the scenario has no such step"),
        }
    }
}

impl Error for PartMissing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_on_a_missing_stage_is_an_error() {
        let check = |condition: &str, stages: Option<&str>| {
            let stages = stages.map(|stages| stages.parse::<Stages>().unwrap());
            condition.parse::<Threshold>().unwrap().check(stages.as_ref(), None)
        };
        let three = Some("1s:5,0s:10,1s:10");
        for condition in ["p99 > 1s", "stage 1: p99 > 1s", "stage 3: p99 > 1s"] {
            assert_eq!(check(condition, three), Ok(()));
        }
        assert_eq!(check("p99 > 1s", None), Ok(()));
        for (condition, stages, reason, hint) in [
            ("stage 9: p99 > 1s", three, "the load has only 3 stages", "use a stage from 1 to 3"),
            (
                "stage 2: max > 1s",
                Some("1s:5"),
                "the load has only one stage",
                "the only stage has the number 1",
            ),
            (
                "stage 2: p99 > 1s",
                three,
                "stage 2 has no duration, so it has no requests",
                "use the next stage",
            ),
            ("stage 1: p99 > 1s", None, "the load has no stages", "add `--stages`"),
            ("step login: p99 > 1s", None, "the load has no scenario", "`thruway bench scenario`"),
            ("stage 18446744073709551615: p99 > 1s", three, "the load has only 3 stages", "from 1 to 3"),
        ] {
            let error = check(condition, stages).unwrap_err();
            let expected = format!("the condition `{condition}` can never be checked: {reason}");
            assert_eq!(error.to_string(), expected);
            assert!(error.hint().contains(hint), "{condition}: {}", error.hint());
        }
    }
}
