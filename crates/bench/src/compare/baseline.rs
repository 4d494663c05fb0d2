//! Checks that a comparison can be the baseline of another.

use std::fmt;

use super::comparison::Comparison;
use crate::report::Settings;

/// Why a comparison cannot be the baseline of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BaselineError {
    /// Requests to this candidate failed.
    Failed(String),
    /// It has other candidates.
    OtherCandidates,
    /// It is of another load; these settings differ.
    OtherLoad(Vec<String>),
    /// There are too few rounds to tell a regression.
    Rounds {
        /// Rounds of the new comparison.
        rounds: usize,
        /// Rounds of the candidate in the baseline.
        known: usize,
        /// The candidate.
        name: String,
    },
}

impl Comparison {
    /// Checks that so many rounds tell a regression against this baseline.
    ///
    /// # Errors
    /// They are too few.
    pub fn check_rounds(&self, rounds: usize) -> Result<(), BaselineError> {
        Self::can_be_told(rounds, self).map_err(|(name, known)| BaselineError::Rounds {
            rounds,
            known,
            name: name.to_owned(),
        })
    }

    /// Checks that this baseline fits candidates with these names under a load with these settings. Returns
    /// `false` if it does not say how it was loaded.
    ///
    /// # Errors
    /// A regression could not be found with it.
    pub fn check_baseline<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        settings: &Settings,
    ) -> Result<bool, BaselineError> {
        let known: Vec<_> = names.filter_map(|name| self.counterpart(name)).collect();
        if known.is_empty() {
            return Err(BaselineError::OtherCandidates);
        }
        if let Some(failed) = known.iter().find(|known| known.has_failed()) {
            return Err(BaselineError::Failed(failed.name.clone()));
        }
        let Some(own) = &self.settings else { return Ok(false) };
        let differences = settings.differences(own);
        if differences.is_empty() { Ok(true) } else { Err(BaselineError::OtherLoad(differences)) }
    }
}

impl BaselineError {
    /// Returns the next step for the user of `thruway bench`.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Failed(_) => "use a baseline without failed requests",
            Self::OtherCandidates => "use the same URLs: they are the names of the candidates",
            Self::OtherLoad(_) => "use the settings of the baseline, or another baseline",
            Self::Rounds { .. } => {
                "use at least four rounds on each side, and more for a smaller regression: `--rounds 10`. The rounds of a `bench http` report are its time parts: use a longer duration"
            }
        }
    }
}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(name) => {
                write!(f, "requests to `{}` failed in the baseline", name.escape_debug())
            }
            Self::OtherCandidates => f.write_str("the baseline has no candidate with these names"),
            Self::OtherLoad(differences) => {
                write!(f, "the baseline has other settings: {}", differences.join(", ").escape_debug())
            }
            Self::Rounds { rounds, known, name } => write!(
                f,
                "{rounds} rounds and {known} of `{}` in the baseline are too few to detect a regression",
                name.escape_debug()
            ),
        }
    }
}

impl std::error::Error for BaselineError {}
