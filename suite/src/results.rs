//! What a suite has measured, as a value that can be written down: the schema of its JSON.

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::case::{Between, Workload};
use crate::figures::Figures;
use thruway_bench::report::unreadable;

/// What a suite has measured. Fields may be added to it; none changes its meaning or its unit without another
/// `format`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SuiteReport {
    /// `thruway-bench-suite/1`.
    pub(crate) format: String,
    /// Where and on what it was measured.
    pub(crate) environment: Environment,
    /// How long and how often.
    pub(crate) settings: SuiteSettings,
    /// The servers that took part.
    pub(crate) servers: Vec<ServerFacts>,
    /// The cases, in the order in which they were measured.
    pub(crate) cases: Vec<CaseResult>,
    /// What was not measured.
    pub(crate) left_out: Vec<LeftOut>,
    /// Whether it was ended from outside.
    pub(crate) is_interrupted: bool,
    /// How long it took, in seconds.
    pub(crate) elapsed_seconds: f64,
}

/// Where and on what was measured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Environment {
    /// When it began, in UTC.
    pub(crate) date: String,
    /// The version of ours, and its commit where that is known.
    pub(crate) version: String,
    /// Whether ours was compiled without optimisation: then its figures say nothing about it.
    pub(crate) is_debug_build: bool,
    /// The processor.
    pub(crate) cpu: String,
    /// How many cores this process may use.
    pub(crate) cores: u64,
    /// What runs on which core.
    pub(crate) placement: String,
    /// The version of the kernel.
    pub(crate) kernel: String,
    /// Memory in octets.
    pub(crate) memory: u64,
    /// Descriptors that a process may have; absent where there is no limit.
    pub(crate) descriptors: Option<u64>,
    /// Other load generators.
    pub(crate) tools: Vec<Tool>,
}

/// A program that is no server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: String,
    /// What it says of its version.
    pub(crate) version: String,
}

/// How long and how often was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SuiteSettings {
    /// What was asked for, as it is typed.
    pub(crate) command: String,
    /// How long each candidate is loaded each time, in seconds, where a number of requests says nothing else.
    pub(crate) duration_seconds: f64,
    /// How long it is loaded before that.
    pub(crate) warm_up_seconds: f64,
    /// How often in each case.
    pub(crate) rounds: u64,
    /// How long all of it was to take at most.
    pub(crate) limit_seconds: f64,
}

/// A server that took part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServerFacts {
    /// Its name in the tables.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// How it is set up.
    pub(crate) about: String,
    /// How it is started.
    pub(crate) command: String,
    /// Its config, if it has one.
    pub(crate) config: Option<String>,
}

/// What was measured in a case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CaseResult {
    /// The workload it belongs to.
    pub(crate) workload: Workload,
    /// Its name.
    pub(crate) name: String,
    /// What was compared.
    pub(crate) between: Between,
    /// The command that makes the load.
    pub(crate) command: String,
    /// Connections at the same time.
    pub(crate) connections: u64,
    /// Requests that are unanswered on a connection, or on a pipe, at the same time.
    pub(crate) pipeline: u64,
    /// Those that were loaded; the first is ours.
    pub(crate) candidates: Vec<CandidateResult>,
}

/// What one candidate has shown in a case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CandidateResult {
    /// Its name.
    pub(crate) name: String,
    /// Its figures, by round.
    pub(crate) rounds: Vec<Figures>,
    /// Why there are no more of them than there are; absent if nothing happened.
    pub(crate) failure: Option<String>,
    /// Connections at the same time, where it has room for fewer than the case has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
}

/// Something that was not measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// A server, a tool or a case.
    pub(crate) what: String,
    /// Why.
    pub(crate) because: String,
}

impl SuiteReport {
    /// `thruway-bench-suite/1`.
    pub(crate) const FORMAT: &str = "thruway-bench-suite/1";

    /// The JSON Schema of what a suite has measured.
    pub(crate) fn schema() -> Schema {
        schema_for!(SuiteReport)
    }

    /// As JSON.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads what [`to_json`](Self::to_json) has written.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        if report.format == Self::FORMAT {
            Ok(report)
        } else {
            Err(format!("its format is `{}`, not `{}`", report.format.escape_debug(), Self::FORMAT))
        }
    }

    /// Whether every request of every load was answered as expected, and every candidate lived to the end.
    pub(crate) fn is_clean(&self) -> bool {
        self.candidates()
            .all(|candidate| candidate.failure.is_none() && candidate.rounds.iter().all(Figures::is_clean))
    }

    /// Whether there are any figures.
    pub(crate) fn has_figures(&self) -> bool {
        self.candidates().any(|candidate| !candidate.rounds.is_empty())
    }

    /// The case of this name.
    pub(crate) fn case(&self, name: &str) -> Option<&CaseResult> {
        self.cases.iter().find(|case| case.name == name)
    }

    fn candidates(&self) -> impl Iterator<Item = &CandidateResult> {
        self.cases.iter().flat_map(|case| &case.candidates)
    }
}

impl CaseResult {
    /// The first candidate, which is ours, if it has figures.
    pub(crate) fn ours(&self) -> Option<&CandidateResult> {
        self.candidates.first().filter(|ours| !ours.rounds.is_empty())
    }

    /// The others that have figures.
    pub(crate) fn others(&self) -> impl Iterator<Item = &CandidateResult> {
        self.candidates.iter().skip(1).filter(|other| !other.rounds.is_empty())
    }

    /// The candidate of this name, if it has figures.
    pub(crate) fn candidate(&self, name: &str) -> Option<&CandidateResult> {
        self.candidates.iter().find(|candidate| candidate.name == name && !candidate.rounds.is_empty())
    }
}
