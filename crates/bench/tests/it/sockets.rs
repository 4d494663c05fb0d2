//! The same on sockets, with threads and the system's clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thruway_bench::ramp::Step;
use thruway_bench::{
    FailureKind, HttpRequest, HttpRequests, Limit, Load, Manner, OpenError, Outcome, Pace, Report, RunError,
    StopFlag, Url,
};
use thruway_client::{ConnectError, UpstreamAddr};
use thruway_server::{ListenAddr, OwnedRequest, RunningServer, Server};
use thruway_testkit::upstream;

fn load(address: impl Into<UpstreamAddr>) -> Load {
    let request = HttpRequest::get(Url::parse("http://a.example/").unwrap());
    Load {
        requests: Arc::new(HttpRequests::new(&[request]).unwrap()),
        addresses: vec![address.into()],
        tls: None,
        connections: 4,
        workers: 2,
        pace: Pace::Closed,
        limit: Limit::Requests(1000),
        warm_up: Duration::ZERO,
        manner: Manner {
            is_http2: false,
            pipeline: 1,
            is_persistent: true,
            timeout: Duration::from_secs(20),
            drain: Duration::from_secs(1),
        },
        stop: StopFlag::default(),
        server: None,
    }
}

fn run(load: &Load) -> Outcome {
    load.run(&mut |_| {}).unwrap()
}

fn serve() -> (RunningServer, SocketAddr) {
    let server = Server::new(|| "hello").workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = server.addresses()[0].clone() else { panic!("no TCP address") };
    (server, address)
}

#[test]
fn every_request_is_answered_whatever_the_manner() {
    let (_server, address) = serve();
    for (pipeline, is_persistent) in [(1, true), (16, true), (1, false)] {
        let mut load = load(address);
        load.manner = Manner { pipeline, is_persistent, ..load.manner };
        let request =
            HttpRequest { is_persistent, ..HttpRequest::get(Url::parse("http://a.example/").unwrap()) };
        load.requests = Arc::new(HttpRequests::new(&[request]).unwrap());
        let outcome = run(&load);
        let record = &outcome.record;
        assert_eq!(
            (record.answered, record.failed()),
            (1000, 0),
            "{:?}",
            record.failures().collect::<Vec<_>>()
        );
        assert_eq!(record.connections_opened, if is_persistent { 4 } else { 1000 });
        assert_eq!((record.content_bytes, record.service.count()), (5000, 1000));
        let parts: u64 = outcome.over_time.parts().map(|(_, part)| part.answered).sum();
        assert_eq!(parts, 1000);
        assert!(outcome.workers.iter().all(|cpu| *cpu > Duration::ZERO));
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_starts_on_time() {
    let (_server, address) = serve();
    let mut load = load(address);
    load.pace = Pace::Constant { rate: 500.0 };
    load.limit = Limit::Duration(Duration::from_millis(600));
    let outcome = run(&load);
    assert_eq!(outcome.record.answered + outcome.record.failed(), 300);
    assert_eq!(outcome.record.response.count(), 300);
}

/// No rate was held by a server whose answers took more than a hundredth of a step.
#[test]
fn a_slow_server_holds_a_rate() {
    let slow = async |_: OwnedRequest| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        "hello"
    };
    let server = Server::new(slow).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = server.addresses()[0].clone() else { panic!("no TCP address") };
    let mut load = load(address);
    load.connections = 64;
    load.limit = Limit::Duration(Duration::from_millis(400));
    for pace in [Pace::Constant { rate: 200.0 }, Pace::Poisson { rate: 200.0, seed: 4 }] {
        load.pace = pace;
        let report = Report::new("slow", &load, &run(&load));
        let step = Step::of(&report, 20e6);
        assert!(step.holds, "{step:?}");
        assert!(report.elapsed_seconds > 0.45, "the last answers come after the end: {report:?}");
        let is_by_chance = matches!(pace, Pace::Poisson { .. });
        assert_eq!(report.to_text().contains(" due by chance"), is_by_chance, "{}", report.to_text());
    }
}

#[test]
fn a_unix_socket_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let listen = format!("unix:{}", path.display());
    let _server = Server::new(|| "hello").workers(1).listen(&listen).unwrap().start().unwrap();
    assert_eq!(run(&load(UpstreamAddr::unix(path))).record.answered, 1000);
}

#[test]
fn servers_that_misbehave_are_counted() {
    for (server, kind) in [
        (upstream::closes_without_an_answer(), FailureKind::Closed),
        (upstream::closes_mid_head(), FailureKind::Incomplete),
        (upstream::closes_mid_content(), FailureKind::Incomplete),
        (upstream::closes_mid_chunk(), FailureKind::Incomplete),
        (upstream::resets_mid_content(), FailureKind::Reset),
        (upstream::sends_rubbish(), FailureKind::Malformed),
    ] {
        let server = server.listen();
        let mut load = load(server.address);
        load.limit = Limit::Requests(20);
        let record = run(&load).record;
        let failures: Vec<_> = record.failures().collect();
        assert_eq!(record.answered, 0);
        // Octets that a socket has received before a reset may be lost with it.
        let is_counted = |(found, ..): &(FailureKind, u64, String)| {
            *found == kind || kind == FailureKind::Incomplete && *found == FailureKind::Reset
        };
        assert!(failures.iter().all(is_counted) && record.failed() == 20, "{kind:?}: {failures:?}");
    }
}

#[test]
fn a_server_that_says_nothing_times_out() {
    let server = upstream::accepts_and_says_nothing().listen();
    let mut load = load(server.address);
    load.manner.timeout = Duration::from_millis(50);
    load.limit = Limit::Requests(8);
    let record = run(&load).record;
    assert_eq!((record.failed_as(FailureKind::TimedOut), record.failed()), (8, 8));
}

#[test]
fn a_load_that_gets_no_connection_does_not_begin() {
    let refused = load(upstream::refuses()).run(&mut |_| {}).unwrap_err();
    assert!(matches!(refused, RunError::Connect(_, OpenError::Connect(ConnectError::Refused))), "{refused}");
    let directory = tempfile::tempdir().unwrap();
    let missing = load(UpstreamAddr::unix(directory.path().join("none"))).run(&mut |_| {}).unwrap_err();
    assert!(
        matches!(missing, RunError::Connect(_, OpenError::Connect(ConnectError::SocketNotFound))),
        "{missing}"
    );
    let (_server, address) = serve();
    let no_process = Load { server: Some(u32::MAX), ..load(address) }.run(&mut |_| {}).unwrap_err();
    assert!(matches!(no_process, RunError::ServerMissing(_)), "{no_process}");
}

#[test]
fn what_the_server_costs_is_told() {
    let (_server, address) = serve();
    let outcome = run(&Load { server: Some(std::process::id()), ..load(address) });
    // The CPU time of this process is that of threads which have ended by now.
    let server = outcome.server.unwrap();
    assert!(server.resident_before_bytes > 1 << 20, "{server:?}");
    assert!(server.resident_max_bytes >= server.resident_after_bytes, "{server:?}");
}

#[test]
fn a_stop_ends_the_load_soon() {
    let (_server, address) = serve();
    let mut load = load(address);
    load.limit = Limit::Duration(Duration::from_hours(1));
    let stop = load.stop.clone();
    let outcome = load.run(&mut |progress| {
        if progress.answered > 0 {
            stop.stop();
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_stopped && outcome.record.answered > 0 && outcome.elapsed < Duration::from_mins(1));
}
