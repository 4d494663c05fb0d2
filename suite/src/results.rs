//! The results of a suite, for the JSON report.

use serde::Serialize;

use crate::case::{ComparisonKind, Workload};
use crate::figures::Figures;

/// The results of a suite. New fields can appear in the same `format`. The meaning or unit of a field changes
/// only with a new `format`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SuiteReport {
    /// `thruway-bench-suite/3`.
    pub(crate) format: String,
    /// The machine and the software of the run.
    pub(crate) environment: Environment,
    /// The settings of the run.
    pub(crate) settings: SuiteSettings,
    /// The servers in this run.
    pub(crate) servers: Vec<ServerFacts>,
    /// The cases, in the order in which they were measured.
    pub(crate) cases: Vec<CaseResult>,
    /// The servers, tools and cases that were left out.
    pub(crate) left_out: Vec<Omission>,
    /// `true` if a signal ended the run.
    pub(crate) is_interrupted: bool,
    /// Elapsed time, in seconds.
    pub(crate) elapsed_seconds: f64,
}

/// The machine and the software of the run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Environment {
    /// Start time in UTC.
    pub(crate) date: String,
    /// The version of Thruway, and its commit if known.
    pub(crate) version: String,
    /// `true` if the load generator was compiled without optimization. If `true`, the rates and times of the
    /// report have no meaning.
    pub(crate) is_debug_build: bool,
    /// The processor.
    pub(crate) cpu: String,
    /// Number of cores that this process may use.
    pub(crate) cores: u64,
    /// The cores of the servers and of the load generator.
    pub(crate) placement: String,
    /// The version of the kernel.
    pub(crate) kernel: String,
    /// Memory in bytes.
    pub(crate) memory: u64,
    /// Descriptor limit of a process; absent if there is no limit.
    pub(crate) descriptors: Option<u64>,
    /// Third-party load generators.
    pub(crate) tools: Vec<Tool>,
}

/// A program that is not a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: String,
    /// The version that it prints.
    pub(crate) version: String,
}

/// The settings of the run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SuiteSettings {
    /// The command line.
    pub(crate) command: String,
    /// Duration of each measurement, in seconds, unless a case has a number of requests.
    pub(crate) duration_seconds: f64,
    /// Warm-up of each measurement, in seconds.
    pub(crate) warm_up_seconds: f64,
    /// Number of rounds of each case.
    pub(crate) rounds: u64,
    /// Time limit of the whole run, in seconds.
    pub(crate) limit_seconds: f64,
}

/// A server in this run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct ServerFacts {
    /// The name of the server in the tables.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Its setup.
    pub(crate) about: String,
    /// Its command.
    pub(crate) command: String,
    /// The config of the server, if any.
    pub(crate) config: Option<String>,
}

/// The results of a case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct CaseResult {
    /// The workload of the case.
    pub(crate) workload: Workload,
    /// Its name.
    pub(crate) name: String,
    /// The kind of comparison.
    pub(crate) between: ComparisonKind,
    /// The candidates. The first one is Thruway.
    pub(crate) candidates: Vec<CandidateResult>,
}

/// The results of one candidate in a case.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CandidateResult {
    /// Its name.
    pub(crate) name: String,
    /// The figures of the candidate, by round.
    pub(crate) rounds: Vec<Figures>,
    /// Reason why the rounds are incomplete; absent without a failure.
    pub(crate) failure: Option<String>,
    /// Number of connections, if the candidate supports fewer connections than the case has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
}

/// A server, a tool or a case that the suite did not measure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Omission {
    /// Name of the server, tool or case.
    pub(crate) what: String,
    /// The reason.
    pub(crate) because: String,
}

impl SuiteReport {
    /// `thruway-bench-suite/3`.
    pub(crate) const FORMAT: &str = "thruway-bench-suite/3";

    /// Returns `true` if all requests had the expected response, and no candidate failed.
    pub(crate) fn is_clean(&self) -> bool {
        self.candidates()
            .all(|candidate| candidate.failure.is_none() && candidate.rounds.iter().all(Figures::is_clean))
    }

    /// Returns `true` if there are any figures.
    pub(crate) fn has_figures(&self) -> bool {
        self.candidates().any(|candidate| !candidate.rounds.is_empty())
    }

    /// Returns the case with this name.
    pub(crate) fn case(&self, name: &str) -> Option<&CaseResult> {
        self.cases.iter().find(|case| case.name == name)
    }

    fn candidates(&self) -> impl Iterator<Item = &CandidateResult> {
        self.cases.iter().flat_map(|case| &case.candidates)
    }
}

impl CaseResult {
    /// Returns Thruway, the first candidate, if it has figures.
    pub(crate) fn ours(&self) -> Option<&CandidateResult> {
        self.candidates.first().filter(|ours| !ours.rounds.is_empty())
    }

    /// Returns the other candidates that have figures.
    pub(crate) fn other_candidates(&self) -> impl Iterator<Item = &CandidateResult> {
        self.candidates.iter().skip(1).filter(|other| !other.rounds.is_empty())
    }

    /// Returns the candidate with this name, if it has figures.
    pub(crate) fn candidate(&self, name: &str) -> Option<&CandidateResult> {
        self.candidates.iter().find(|candidate| candidate.name == name && !candidate.rounds.is_empty())
    }
}
