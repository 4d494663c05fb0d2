//! The cases of the suite, as a table.

use std::time::Duration;

use crate::case::{Amount, Between, CROWD, Case, Operation, Peers, Request, Security, Workload};
use crate::gateway::{self, SIZES};
use crate::libraries;

/// The cases of these workloads, in the order in which they run.
pub(crate) fn cases(workloads: &[Workload]) -> Vec<Case> {
    let all = [
        plaintext(),
        pipelining(),
        persistence(),
        mcp_http(),
        mcp_stdio(),
        gateway::cases(),
        connections(),
        tls(),
        http2(),
        libraries::cases(),
    ];
    all.into_iter().flatten().filter(|case| workloads.contains(&case.workload)).collect()
}

const PLAINTEXT: Request = Request::Get("/plaintext", 13);

fn plaintext() -> Vec<Case> {
    let case = |connections: u32| {
        let rank = match connections {
            MANY => 0,
            16 => 1,
            _ => 2,
        };
        let name = format!("plaintext c={connections}");
        Case { rank, ..Case::new(Workload::Plaintext, name, PLAINTEXT, connections) }
    };
    let mut cases: Vec<_> = [1, 16, 64, MANY, 1000].map(case).into();
    cases.extend([16, MANY].map(|connections| generators(&case(connections))));
    cases
}

fn pipelining() -> Vec<Case> {
    let case = |pipeline: u16| {
        let name = format!("pipelining depth {pipeline}");
        let rank = u8::from(pipeline != 16);
        let peers = Peers::AllAnd(&["axum-flush"]);
        Case { pipeline, peers, rank, ..Case::new(Workload::Pipelining, name, PLAINTEXT, MANY) }
    };
    let mut cases: Vec<_> = [1, 16, 100].map(case).into();
    cases.push(generators(&case(16)));
    cases
}

/// The same load, made by ours and by other load generators.
fn generators(case: &Case) -> Case {
    let name = format!("{}, by other load generators", case.name);
    Case { name, between: Between::Generators, peers: Peers::All, rank: 2, ..case.clone() }
}

fn persistence() -> Vec<Case> {
    let case = |name: &str, is_persistent, about| {
        let amount = Amount::Requests(50_000, Duration::from_millis(about));
        let case = Case::new(Workload::Persistence, name, PLAINTEXT, 1000);
        Case { is_persistent, amount, ..case }
    };
    let with = case("keep-alive with -k", true, 700);
    let without = case("keep-alive without -k", false, 2500);
    let checks = [&with, &without].map(generators);
    [with, without].into_iter().chain(checks).collect()
}

fn mcp_http() -> Vec<Case> {
    let case = |operation: Operation, connections| {
        let name = format!("mcp {} c={connections}", operation.label());
        Case::new(Workload::McpHttp, name, Request::Mcp(operation), connections)
    };
    let operation = |operation: Operation| {
        // What is in resources, prompts and lists of tools is each server's own.
        let peers = match operation {
            Operation::Ping | Operation::Echo | Operation::Add => Peers::All,
            _ => Peers::None,
        };
        Case { peers, rank: 1, ..case(operation, 1) }
    };
    let wide = |connections: u32| {
        let (peers, rank) = match connections {
            16 => (Peers::All, 0),
            32 => (Peers::All, 1),
            _ => (Peers::Only(&["rmcp"]), 2),
        };
        Case { peers, rank, ..case(Operation::Echo, connections) }
    };
    let mut cases: Vec<_> = Operation::ALL.map(operation).into();
    cases.extend([2, 4, 8, 10, 16, 32, 50, 100].map(wide));
    let name = "mcp tools/call echo c=1, a connection for each request";
    let rank = 1;
    cases.push(Case { name: name.to_owned(), is_persistent: false, rank, ..case(Operation::Echo, 1) });
    cases
}

fn mcp_stdio() -> Vec<Case> {
    let case = |name: String, operation: Operation| {
        let case = Case::new(Workload::McpStdio, name, Request::Mcp(operation), 1);
        Case { between: Between::Pipes, peers: Peers::None, ..case }
    };
    let operation = |operation: Operation| {
        let rank = u8::from(operation != Operation::Echo);
        Case { rank, ..case(format!("stdio {}", operation.label()), operation) }
    };
    let counted = |requests: u64| {
        let amount = Amount::Requests(requests, Duration::from_millis(requests / 20 + 10));
        Case {
            amount,
            rank: 2,
            ..case(format!("stdio tools/call echo, {requests} requests"), Operation::Echo)
        }
    };
    let window = |pipeline: u16| {
        let name = format!("stdio tools/call echo, window {pipeline}");
        Case { pipeline, peers: Peers::All, rank: 1, ..case(name, Operation::Echo) }
    };
    let mut cases: Vec<_> = Operation::ALL.map(operation).into();
    cases.extend([100, 1000, 5000].map(counted));
    cases.extend([1, 16, 64].map(window));
    cases.extend([1, 16].map(|pipeline| {
        let case = window(pipeline);
        let name = format!("{}, by a hand-written loop", case.name);
        Case { name, between: Between::PipeGenerators, rank: 2, ..case }
    }));
    cases
}

fn connections() -> Vec<Case> {
    let case = |name: &str, connections, rate: Option<f64>| {
        let case = Case::new(Workload::Connections, name, PLAINTEXT, connections);
        let rank = u8::from(rate.is_none());
        Case { rate, rank, peers: Peers::Only(&["nginx", "haproxy", "h2o", "hyper", "nethttp"]), ..case }
    };
    vec![
        // Each connection is used while it warms up.
        case("connections held c=10000", CROWD, Some(5000.0)),
        case("connections busy c=100", 100, None),
        case("connections busy c=10000", CROWD, None),
    ]
}

fn tls() -> Vec<Case> {
    let case = |name: &str, (_, target, octets): (&str, &'static str, u64), connections| Case {
        security: Security::Resumed,
        peers: Peers::Only(&["nginx", "haproxy"]),
        ..Case::new(
            Workload::Tls,
            format!("tls {name} c={connections}"),
            Request::Get(target, octets),
            connections,
        )
    };
    let [small, medium, large] = SIZES;
    let handshakes = |name: &str, security| Case { security, is_persistent: false, ..case(name, small, 32) };
    let two_octets = case("2 B", small, 64);
    vec![
        generators(&two_octets),
        two_octets,
        case("4 KB", medium, 64),
        Case { rank: 1, peers: Peers::Only(&["nginx"]), ..case("1 MB", large, 16) },
        handshakes("full handshakes", Security::Full),
        handshakes("resumed handshakes", Security::Resumed),
    ]
}

fn http2() -> Vec<Case> {
    let case = |name: String, (_, target, octets): (&str, &'static str, u64)| Case {
        is_http2: true,
        pipeline: 32,
        peers: Peers::Only(&["nginx", "haproxy", "h2o", "hyper"]),
        ..Case::new(Workload::Http2, name, Request::Get(target, octets), 8)
    };
    let [small, medium, _] = SIZES;
    let server = |size: (&'static str, &'static str, u64)| case(format!("http2 {} c=8 m=32", size.0), size);
    let gateway = |size: (&'static str, &'static str, u64)| Case {
        between: Between::Gateways,
        ..case(format!("http2 gateway {} c=8 m=32", size.0), size)
    };
    vec![generators(&server(small)), server(small), server(medium), gateway(small), gateway(medium)]
}

/// Connections of W1 and W2.
const MANY: u32 = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_workload_that_chooses_it() {
        let all = cases(&Workload::ALL);
        let names: BTreeSet<_> = all.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), all.len());
        for workload in Workload::ALL {
            let chosen = cases(&[workload]);
            assert!(!chosen.is_empty() && chosen.iter().all(|case| case.workload == workload));
        }
    }

    #[test]
    fn every_workload_has_a_case_that_is_left_out_last() {
        for workload in Workload::ALL {
            assert!(cases(&[workload]).iter().any(|case| case.rank == 0), "{}", workload.name());
        }
    }

    #[test]
    fn a_case_says_the_command_that_makes_it() {
        let second = Duration::from_secs(1);
        let command = |name: &str| {
            let all = cases(&Workload::ALL);
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
