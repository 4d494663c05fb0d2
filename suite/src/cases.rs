//! The cases of the suite, which `suite/data/cases.toml` lists.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;
use thruway_bench::Era;

use crate::case::{
    Amount, Case, ComparisonKind, LoadCondition, Operation, Peers, Request, Security, Workload,
};

/// Returns the cases of these workloads, in the order in which they run.
pub(crate) fn cases(workloads: &[Workload]) -> Vec<Case> {
    CASES.iter().filter(|case| workloads.contains(&case.workload)).cloned().collect()
}

/// All cases. The file is part of this program, and a test reads it: an error in it ends any run.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let rows: Result<BTreeMap<String, Vec<Row>>, _> = toml::from_str(include_str!("../data/cases.toml"));
    let mut rows = rows.unwrap_or_else(|error| panic!("cases.toml: {error}"));
    let of = |workload: Workload| {
        let rows = rows.remove(&workload.name()).unwrap_or_default();
        rows.into_iter().map(move |row| row.case(workload))
    };
    let cases = Workload::all().iter().copied().flat_map(of).collect();
    assert!(rows.is_empty(), "cases.toml: no workload has one of the names {:?}", rows.keys());
    cases
});

/// A case in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    ours: Option<String>,
    era: Option<RowEra>,
    get: Option<String>,
    #[serde(default)]
    bytes: u64,
    mcp: Option<Operation>,
    connections: u32,
    pipeline: Option<u16>,
    security: Option<Security>,
    #[serde(default)]
    http2: bool,
    persistent: Option<bool>,
    rate: Option<f64>,
    requests: Option<u64>,
    #[serde(default)]
    about_ms: u64,
    between: Option<ComparisonKind>,
    circumstance: Option<LoadCondition>,
    peers: Option<RowPeers>,
    #[serde(default)]
    rank: u8,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RowEra {
    Modern,
    Legacy,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RowPeers {
    None,
    Only(Vec<String>),
    AllAnd(Vec<String>),
}

impl Row {
    fn case(self, workload: Workload) -> Case {
        let request = match (self.get, self.mcp) {
            (Some(target), None) => Request::Get(target.leak(), self.bytes),
            (None, Some(operation)) => Request::Mcp(operation),
            _ => panic!("cases.toml: `{}` needs either `get` or `mcp`", self.name),
        };
        let amount = self.requests.map(|count| Amount::Requests(count, Duration::from_millis(self.about_ms)));
        let names = |names: Vec<String>| -> &'static [&'static str] {
            names.into_iter().map(|name| &*name.leak()).collect::<Vec<_>>().leak()
        };
        let default = Case::new(workload, self.name, request, self.connections);
        Case {
            ours: self.ours.map_or(default.ours, |name| name.leak()),
            era: self.era.map(|era| match era {
                RowEra::Modern => Era::Modern,
                RowEra::Legacy => Era::Legacy,
            }),
            pipeline: self.pipeline.unwrap_or(default.pipeline),
            security: self.security.unwrap_or(default.security),
            is_http2: self.http2,
            is_persistent: self.persistent.unwrap_or(default.is_persistent),
            rate: self.rate,
            amount: amount.unwrap_or(default.amount),
            between: self.between.unwrap_or(default.between),
            circumstance: self.circumstance.unwrap_or(default.circumstance),
            peers: match self.peers {
                Some(RowPeers::None) => Peers::None,
                Some(RowPeers::Only(list)) => Peers::Only(names(list)),
                Some(RowPeers::AllAnd(list)) => Peers::AllAnd(names(list)),
                None => default.peers,
            },
            rank: self.rank,
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_workload_that_chooses_it() {
        let all = cases(Workload::all());
        let names: BTreeSet<_> = all.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), all.len());
        for workload in Workload::all().iter().copied() {
            let chosen = cases(&[workload]);
            assert!(!chosen.is_empty() && chosen.iter().all(|case| case.workload == workload));
        }
    }

    #[test]
    fn every_workload_has_a_case_that_is_left_out_last() {
        for workload in Workload::all().iter().copied() {
            assert!(cases(&[workload]).iter().any(|case| case.rank == 0), "{}", workload.name());
        }
    }

    #[test]
    fn a_case_says_the_command_that_makes_it() {
        let second = Duration::from_secs(1);
        let command = |name: &str| {
            let all = cases(Workload::all());
            all.iter().find(|case| case.name == name).unwrap().command(second)
        };
        assert_eq!(
            command("pipelining depth 16"),
            "thruway bench http 'http://ADDRESS/plaintext' -c 256 --pipeline 16 -d 1000ms"
        );
        assert_eq!(
            command("keep-alive without -k"),
            "thruway bench http 'http://ADDRESS/plaintext' -c 1000 --no-keep-alive -n 50000"
        );
        assert_eq!(
            command("tls full handshakes c=32"),
            "thruway bench http 'https://ADDRESS/ok' -c 32 --no-keep-alive --insecure --classical-key-exchange --full-handshakes -d 1000ms"
        );
        assert_eq!(
            command("http2 4 KB c=8 m=32"),
            "thruway bench http 'http://ADDRESS/download?bytes=4096' -c 8 --http2 --streams 32 -d 1000ms"
        );
        assert_eq!(
            command("stdio tools/call echo, window 16"),
            "thruway bench mcp --tool echo --window 16 -d 1000ms -- SERVER"
        );
        assert_eq!(
            command("mcp resources/read c=1"),
            "thruway bench mcp http://ADDRESS/mcp -o read --uri example://hello -c 1 -d 1000ms"
        );
    }
}
