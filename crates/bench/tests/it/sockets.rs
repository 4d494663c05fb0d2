//! Tests of loads on sockets, with threads and the system's clock.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use thruway_bench::ramp::Step;
use thruway_bench::{
    ConnectionOptions, FailureKind, HttpRequest, HttpRequests, Limit, Load, LoadTls, LoadUrl, OpenError,
    Outcome, Pace, Report, RunError, Stage, Stages, StopFlag, Threshold,
};
use thruway_client::{ConnectError, UpstreamAddr};
use thruway_message::StatusCode;
use thruway_net::tls::{TlsConnector, TlsConnectorConfig, TlsServerName};
use thruway_net::{Clock, raise_descriptor_limit};
use thruway_server::{ListenAddr, OwnedRequest, Response, RunningServer, Server};
use thruway_testkit::upstream;

fn load(address: impl Into<UpstreamAddr>) -> Load {
    let request = HttpRequest::get(LoadUrl::parse("http://a.example/").unwrap());
    Load {
        requests: Arc::new(HttpRequests::new(&[request]).unwrap()),
        addresses: vec![address.into()],
        tls: None,
        connections: 4,
        workers: 2,
        pace: Pace::Closed,
        limit: Limit::Requests(1000),
        warm_up: Duration::ZERO,
        connection_options: ConnectionOptions {
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
fn requests_are_answered_with_and_without_keep_alive_and_pipelining() {
    let (_server, address) = serve();
    for (pipeline, is_persistent) in [(1, true), (16, true), (1, false)] {
        let mut load = load(address);
        load.connection_options = ConnectionOptions { pipeline, is_persistent, ..load.connection_options };
        let request =
            HttpRequest { is_persistent, ..HttpRequest::get(LoadUrl::parse("http://a.example/").unwrap()) };
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
        assert!(outcome.workers.iter().all(|used| used.cpu > Duration::ZERO));
    }
}

#[test]
fn open_loop_sends_all_requests_of_its_rate() {
    let (_server, address) = serve();
    let mut load = load(address);
    load.pace = Pace::Constant { rate: 500.0 };
    load.limit = Limit::Duration(Duration::from_millis(600));
    let outcome = run(&load);
    assert_eq!(outcome.record.answered + outcome.record.failed(), 300);
    assert_eq!(outcome.record.response.count(), 300);
}

/// Regression test: if responses took more than a hundredth of a step, the server was found to hold no rate
/// at all.
#[test]
fn slow_server_can_hold_a_rate() {
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
        load.pace = pace.clone();
        let report = Report::new("slow", &load, &run(&load));
        let step = Step::of(&report, 20e6);
        assert!(step.holds, "{step:?}");
        assert!(report.elapsed_seconds > 0.45, "the last responses arrive after the end: {report:?}");
        let is_by_chance = matches!(pace, Pace::Poisson { .. });
        assert_eq!(report.to_text().contains(" due by chance"), is_by_chance, "{}", report.to_text());
    }
}

#[test]
fn load_works_on_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let listen = format!("unix:{}", path.display());
    let _server = Server::new(|| "hello").workers(1).listen(&listen).unwrap().start().unwrap();
    assert_eq!(run(&load(UpstreamAddr::unix(path))).record.answered, 1000);
}

#[test]
fn misbehaving_servers_are_counted_by_failure_kind() {
    for (server, kind) in [
        (upstream::closes_without_response(), FailureKind::Closed),
        (upstream::closes_mid_head(), FailureKind::Incomplete),
        (upstream::closes_mid_body(), FailureKind::Incomplete),
        (upstream::closes_mid_chunk(), FailureKind::Incomplete),
        (upstream::resets_mid_body(), FailureKind::Reset),
        (upstream::sends_other_protocol(), FailureKind::Malformed),
    ] {
        let server = server.listen();
        let mut load = load(server.address);
        load.limit = Limit::Requests(20);
        let record = run(&load).record;
        let failures: Vec<_> = record.failures().collect();
        assert_eq!(record.answered, 0);
        // A reset may discard bytes that the socket has already received.
        let is_counted = |(found, ..): &(FailureKind, u64, String)| {
            *found == kind || kind == FailureKind::Incomplete && *found == FailureKind::Reset
        };
        assert!(failures.iter().all(is_counted) && record.failed() == 20, "{kind:?}: {failures:?}");
    }
}

#[test]
fn requests_to_a_silent_server_time_out() {
    let server = upstream::accepts_without_response().listen();
    let mut load = load(server.address);
    load.connection_options.timeout = Duration::from_millis(50);
    load.limit = Limit::Requests(8);
    let record = run(&load).record;
    assert_eq!((record.failed_as(FailureKind::TimedOut), record.failed()), (8, 8));
}

#[test]
fn load_without_a_connection_does_not_start() {
    let refused = load(upstream::unused_address()).run(&mut |_| {}).unwrap_err();
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
fn report_includes_server_memory() {
    let (_server, address) = serve();
    let outcome = run(&Load { server: Some(std::process::id()), ..load(address) });
    // CPU time is not checked, because the threads of this process have ended by now.
    let server = outcome.server.unwrap();
    assert!(server.resident_before_bytes > 1 << 20, "{server:?}");
    assert!(server.resident_max_bytes >= server.resident_after_bytes, "{server:?}");
}

#[test]
fn stop_flag_ends_the_load_soon() {
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

/// Regression test: a server died after half of the requests. The other half failed immediately, so the load
/// ended early and the server looked twice as fast.
#[test]
fn load_with_request_limit_lasts_until_the_last_request_fails() {
    let requests = Arc::new(AtomicU32::new(0));
    let dying = move |_: OwnedRequest| {
        let number = requests.fetch_add(1, Ordering::Relaxed);
        async move {
            if number < 20 {
                return Response::new(StatusCode::OK);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            Response::new(StatusCode::BAD_GATEWAY)
        }
    };
    let server = Server::new(dying).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = server.addresses()[0].clone() else { panic!("no TCP address") };
    let outcome = run(&Load { limit: Limit::Requests(40), workers: 1, ..load(address) });
    assert_eq!((outcome.record.answered, outcome.record.failed()), (20, 20));
    // Four requests are sent at a time.
    assert!(outcome.elapsed >= Duration::from_millis(500), "{:?}", outcome.elapsed);
    assert!(outcome.record.achieved_requests_per_second(outcome.window) <= 40.0);
    let shown = outcome.over_time.parts().filter(|(at, _)| *at < outcome.elapsed);
    assert_eq!(shown.map(|(_, part)| part.failed).sum::<u64>(), 20);
}

/// A load over TLS on a server that accepts connections but never starts the handshake.
fn load_that_waits_for_handshakes(server: SocketAddr, timeout: Duration) -> Load {
    let connector = TlsConnector::load(TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() });
    let tls = LoadTls {
        connector: Arc::new(connector.unwrap()),
        server_name: TlsServerName::new("a.example").unwrap(),
    };
    let load = load(server);
    let connection_options = ConnectionOptions { timeout, ..load.connection_options };
    Load { tls: Some(tls), connections: 640, workers: 1, connection_options, ..load }
}

/// Regression test: the load waited for each of ten thousand connections, 64 at a time, which took 26
/// minutes.
#[test]
fn first_connect_timeout_ends_the_load() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let load = load_that_waits_for_handshakes(server.local_addr().unwrap(), Duration::from_secs(1));
    let (clock, begin) = (Clock::system(), Clock::system().now_exact());
    let refused = load.run(&mut |_| {}).unwrap_err();
    assert!(matches!(refused, RunError::Connect(_, OpenError::Connect(ConnectError::Tls(_)))), "{refused}");
    let waited = clock.now_exact().saturating_sub(begin);
    // Ten groups of 64 connections would take ten seconds.
    assert!(waited < Duration::from_secs(9), "{waited:?}");
}

#[test]
fn stop_flag_ends_the_wait_for_connections() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let load = load_that_waits_for_handshakes(server.local_addr().unwrap(), Duration::from_hours(1));
    let (stop, mut stages) = (load.stop.clone(), Vec::new());
    let outcome = load.run(&mut |progress| {
        stages.push(progress.stage);
        stop.stop();
    });
    let outcome = outcome.unwrap();
    assert_eq!(stages[0], Stage::Connecting { opened: 0, connections: 640 });
    assert!(outcome.is_stopped && outcome.record.answered == 0);
}

/// Regression test: the load generator's CPU time was divided by a measured time of zero, and it was reported
/// as the limit.
#[test]
fn load_stopped_during_warm_up_has_no_cpu_usage() {
    let (_server, address) = serve();
    let load = Load { warm_up: Duration::from_hours(1), ..load(address) };
    let stop = load.stop.clone();
    let outcome = load.run(&mut |progress| {
        if progress.stage == Stage::WarmingUp {
            stop.stop();
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_stopped && outcome.elapsed.is_zero(), "{:?}", outcome.elapsed);
    let generator = Report::new("stopped", &load, &outcome).generator;
    assert!(!generator.is_limit && generator.cpu_seconds == 0.0, "{generator:?}");
}

#[test]
fn one_load_holds_thousands_of_connections() {
    let (_server, address) = serve();
    raise_descriptor_limit();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    // Both ends of the connections are in this process, together with those of other tests.
    let connections = (limit / 4).min(4000) as usize;
    let load = Load { connections, limit: Limit::Requests(2 * connections as u64), ..load(address) };
    let mut opened = 0;
    let outcome = load.run(&mut |progress| {
        if let Stage::Connecting { opened: now, .. } = progress.stage {
            opened = opened.max(now);
        }
    });
    let record = outcome.unwrap().record;
    assert_eq!((record.answered, record.failed()), (2 * connections as u64, 0));
    assert_eq!(record.connections_opened, connections as u64);
    assert!(opened <= connections && connections >= 250, "{opened} of {connections}");
}

#[test]
fn listen_queue_overflows_are_counted() {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(&listener, 1).unwrap();
    let listener = TcpListener::from(listener);
    // No thread accepts connections.
    let mut load = load(listener.local_addr().unwrap());
    load.connection_options.timeout = Duration::from_millis(200);
    (load.connections, load.limit) = (16, Limit::Duration(Duration::from_millis(100)));
    let outcome = run(&load);
    let found = outcome.listen_queue.unwrap();
    assert!(found.overflows > 0 && found.drops > 0, "{found:?}");
    let warnings = Report::new("full", &load, &outcome).warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("full listen queues on this machine dropped")),
        "{warnings:?}"
    );
    // Unix sockets have a queue of another kind.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let listen = format!("unix:{}", path.display());
    let _server = Server::new(|| "hello").workers(1).listen(&listen).unwrap().start().unwrap();
    assert_eq!(run(&self::load(UpstreamAddr::unix(path))).listen_queue, None);
}

/// A ramp of the rate, and a ramp of the connections.
#[test]
fn report_has_the_results_of_each_stage() {
    let (_server, address) = serve();
    let stages = |text: &str| {
        let mut load = load(address);
        let stages: Stages = text.parse().unwrap();
        load.limit = Limit::Duration(stages.duration());
        load.connections = stages.connections_max().unwrap_or(4) as usize;
        load.pace = Pace::Stages { stages: Arc::new(stages), seed: None };
        Report::new("stages", &load, &run(&load))
    };
    let open = stages("200ms:500,0s:100,300ms:100");
    let counts: Vec<_> =
        open.stages.iter().map(|stage| (stage.number, stage.answered + stage.failed)).collect();
    assert_eq!(counts, [(1, 50), (3, 30)], "{open:?}");
    assert_eq!(open.requests.answered + open.requests.failed, 80);
    assert_eq!(open.stages[0].offered_requests_per_second, Some(250.0));
    assert_eq!(open.stages[0].response_time.count + open.stages[1].response_time.count, 80);
    let html = open.to_html().replace("&#x2f;", "/");
    for form in [open.to_text(), open.to_markdown(), html] {
        assert!(
            form.contains("0 → 500 requests/s") && form.contains("open loop with stages 200ms:500,0s:100"),
            "{form}"
        );
    }
    let csv = open.to_csv();
    let columns: Vec<_> =
        csv.lines().map(|line| line.split('"').next().unwrap().split(',').count()).collect();
    assert_eq!(columns.len(), 4, "{csv}");
    assert!(columns[1..].iter().all(|count| *count == columns[1]), "{csv}");
    let violated = |text: &str| text.parse::<Threshold>().unwrap().evaluate(&open);
    let rate = violated("stage 3: rate > 1");
    assert!(rate.is_violated && rate.to_string().starts_with("rate is "), "{rate}");
    assert!(!violated("stage 1: failed > 1000").is_violated);
    // The second stage has no duration, so it has no results.
    let missing = violated("stage 2: failed > 1");
    assert!(missing.is_violated && missing.value.is_none(), "{missing:?}");

    let closed = stages("200ms:4c,0s:2c,100ms:2c");
    assert_eq!((closed.offered_requests_per_second, closed.stages.len()), (None, 2));
    assert!(closed.is_clean() && closed.stages.iter().all(|stage| stage.answered > 0), "{closed:?}");
    assert!(closed.to_text().contains("0 → 4 conn."), "{}", closed.to_text());
}
