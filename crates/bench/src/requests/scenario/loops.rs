//! Compiles the loops and the redirects of steps.

use toml::Spanned;

use super::compile::Compiler;
use super::error::InvalidScenario;
use super::file::{RepeatKeys, TimesKeys};
use super::plan::runs_max;
use super::step::{Repeat, Step};

impl Compiler<'_> {
    /// Checks a maximum number of redirects.
    pub(super) fn redirects(&self, keys: Option<Spanned<u32>>) -> Result<Option<u32>, InvalidScenario> {
        match keys {
            Some(keys) if *keys.get_ref() > REDIRECTS_MAX => {
                Err(self.invalid(&keys, "redirects", format!("expected a number from 0 to {REDIRECTS_MAX}")))
            }
            keys => Ok(keys.map(Spanned::into_inner)),
        }
    }

    /// Adds the loop that ends with the last step of `steps`. `first` is the index of the first step of the scenario.
    pub(super) fn add_loop(
        &self,
        steps: &mut [Step],
        first: usize,
        keys: Option<Spanned<RepeatKeys>>,
    ) -> Result<(), InvalidScenario> {
        let Some(keys) = keys else { return Ok(()) };
        let invalid = |message: String| self.invalid(&keys, "repeat", message);
        let end = steps.len() - 1;
        let (times, begin) = match keys.get_ref() {
            RepeatKeys::Step(times) => (*times, end),
            RepeatKeys::Steps(repeated) => {
                let found = (first..=end).find(|index| steps[*index].name == repeated.from);
                let begin = found.ok_or_else(|| {
                    let name = repeated.from.escape_debug();
                    invalid(format!(
                        "neither this step nor an earlier step of the scenario has the name `{name}`"
                    ))
                })?;
                (repeated.times, begin)
            }
        };
        let (least, most) = match times {
            TimesKeys::Fixed(times) => (times, times),
            TimesKeys::Range([least, most]) => (least, most),
        };
        if least < 1 || most > RUNS_MAX || least > most {
            return Err(invalid(format!(
                "expected a number from 1 to {RUNS_MAX}, or a range such as `[2, 5]`"
            )));
        }
        // A loop that begins inside another loop also ends inside it.
        let mut loops =
            steps[begin..].iter().zip(begin..).filter_map(|(step, end)| Some((step.repeat?, end)));
        if let Some((_, end)) = loops.find(|(repeat, _)| repeat.first < begin) {
            let other = &steps[end].name;
            return Err(invalid(format!(
                "this loop begins inside the loop of the step `{other}`, but ends after it"
            )));
        }
        steps[end].repeat = Some(Repeat { first: begin, least, most });
        let runs = (first..steps.len()).map(|index| runs_max(steps, index)).fold(0, u64::saturating_add);
        if runs > REQUESTS_MAX {
            return Err(invalid(format!(
                "an iteration can have up to {runs} steps, but the maximum is {REQUESTS_MAX}"
            )));
        }
        Ok(())
    }
}

const REDIRECTS_MAX: u32 = 20;

/// Maximum number of runs of a loop.
const RUNS_MAX: u32 = 10_000;

/// Maximum number of steps of an iteration, with all runs of loops.
const REQUESTS_MAX: u64 = 100_000;
