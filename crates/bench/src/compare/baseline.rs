//! Checks whether a comparison can serve as the baseline of another comparison.

use std::fmt;

use super::comparison::Comparison;
use crate::report::Settings;

/// Reason why a comparison cannot be a baseline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BaselineError {
    /// In the baseline, requests to this candidate failed.
    Failed(String),
    /// No candidate of the new comparison has a counterpart in the baseline.
    OtherCandidates,
    /// The baseline was measured with other settings. The strings describe the settings that differ.
    OtherLoad(Vec<String>),
    /// There are too few rounds to detect a regression.
    Rounds {
        /// Number of rounds of the new comparison.
        rounds: usize,
        /// Number of rounds of the candidate in the baseline.
        known: usize,
        /// The name of the candidate in the baseline.
        name: String,
    },
}

impl Comparison {
    /// Checks that `rounds` new rounds are enough to detect a regression against this baseline.
    ///
    /// # Errors
    /// Returns [`BaselineError::Rounds`] if the new comparison or the baseline has too few rounds.
    pub fn check_rounds(&self, rounds: usize) -> Result<(), BaselineError> {
        Self::check_round_counts(rounds, self).map_err(|(name, known)| BaselineError::Rounds {
            rounds,
            known,
            name: name.to_owned(),
        })
    }

    /// Checks that candidates with these names and these load settings can be compared with this baseline.
    /// Returns `false` if the settings could not be checked, because the baseline does not contain its load
    /// settings.
    ///
    /// # Errors
    /// Returns the reason if this baseline cannot show a regression.
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
    /// Returns the hint that `thruway bench` prints below the error.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Failed(_) => "use a baseline without failed requests",
            Self::OtherCandidates => "pass the URLs of the baseline, because a URL identifies a server",
            Self::OtherLoad(_) => "use the settings of the baseline, or another baseline",
            Self::Rounds { .. } => {
                "use at least four rounds in the baseline and in the new comparison. To detect a smaller regression, use more rounds, such as `--rounds 10`. A report of `bench http` has one round for each part of its measured time: use a longer duration"
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
            Self::OtherCandidates => f.write_str("the baseline has no server with one of these URLs"),
            Self::OtherLoad(differences) => {
                write!(f, "the baseline has other settings: {}", differences.join(", ").escape_debug())
            }
            Self::Rounds { rounds, known, name } => write!(
                f,
                "{rounds} new rounds and {known} rounds of `{}` in the baseline are too few to detect a regression",
                name.escape_debug()
            ),
        }
    }
}

impl std::error::Error for BaselineError {}
