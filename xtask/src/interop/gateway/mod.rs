//! `cargo xtask interop --gateway`: runs `thruway serve` between third-party clients and upstream servers.
//!
//! Request smuggling attempts go through the gateway to each upstream server. The clients of the other checks
//! send requests through a gateway in front of the demo.

// request smuggling
mod seen;
mod answers;
mod upstreams;
mod corpus;

// reloads
mod reload;

use std::fs;
use std::process::Command;

use anyhow::ensure;

use super::check::Checker;
use super::{clients, grpc, words};
use crate::program::find_on_path;
use crate::server::Server;
use upstreams::Upstream;

pub(super) use corpus::Pieces;

/// Runs all checks whose upstream server or client is installed.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    let variations = if checker.is_full { 10_000 } else { 1500 };
    run_cases(checker, "framing tricks", &corpus::own_cases(variations), variations / 4)?;
    run_clients(checker)?;
    if checker.is_full { grpc::run(checker) } else { Ok(()) }
}

/// Sends the cases through the gateway to each installed upstream server. More than `pass_min` requests must
/// reach the server.
pub(super) fn run_cases(
    checker: &Checker<'_>,
    name: &str,
    cases: &[Pieces],
    pass_min: usize,
) -> anyhow::Result<()> {
    for upstream in upstreams::all()?.iter().filter(|upstream| checker.is_full || !upstream.full_only) {
        let what = format!("{name} to {}", upstream.what);
        let check = || through(upstream, checker, cases, pass_min);
        match upstream.program.as_str() {
            "thruway" => checker.row("thruway", &what, check)?,
            program => checker.check(program, &what, check)?,
        }
    }
    Ok(())
}

/// Sends the cases through a gateway to one upstream server.
fn through(
    upstream: &Upstream,
    checker: &Checker<'_>,
    cases: &[Pieces],
    pass_min: usize,
) -> anyhow::Result<String> {
    let (log, access_log) = (checker.directory.join("seen.log"), checker.directory.join("access.log"));
    let started = upstream.start(&log, checker)?;
    fs::write(&access_log, "")?;
    let config = include_str!("in_order.toml").replace("{backend}", &started.address);
    let gateway =
        Server::serve(checker.program, &config, &checker.directory.join("gateway.toml"), checker.stop)?;
    let mut corpus_run = corpus::CorpusRun {
        gateway: gateway.address().parse()?,
        log: seen::Log::new(&log),
        describes_requests: !upstream.is_silent,
        stop: checker.stop,
    };
    let tally = corpus_run.check_all(cases, pass_min)?;
    gateway.end(checker.stop)?;
    let mut logged = seen::forwarded(&access_log)?.into_iter();
    for (n, seen) in tally.seen.iter().enumerate() {
        // The access log has the port as a number, so it cannot show an empty port (RFC 3986 §3.2.3).
        let host = seen.host.strip_suffix(':').unwrap_or(&seen.host);
        let seen = [&seen.method, &seen.target, host].map(str::to_owned);
        let is_logged = logged.any(|logged| logged == seen);
        ensure!(
            is_logged,
            "the upstream server saw {seen:?} as request {n}, but the access log does not contain it"
        );
    }
    let requests = tally.seen.len() - tally.cases;
    Ok(format!("{} cases, {requests} requests, {} rejected", tally.cases, tally.rejected))
}

fn run_clients(checker: &Checker<'_>) -> anyhow::Result<()> {
    let mut demo = Command::new(checker.program);
    demo.args(["serve", "--listen", "127.0.0.1:0"]);
    let demo = Server::start(demo, &checker.directory.join("demo.log"), checker.stop)?;
    let websocket = ["node", "{file:upstreams/websocket.mjs}"];
    let websocket = find_on_path("node").map(|_| words::start(&websocket, [], &[], "websocket", checker));
    let websocket = websocket.transpose()?;
    let config = include_str!("before_the_demo.toml")
        .replace("{demo}", demo.address())
        .replace("{websocket}", websocket.as_ref().unwrap_or(&demo).address());
    let file = checker.directory.join("gateway.toml");
    let gateway = Server::serve(checker.program, &config.replace("{generation}", "0"), &file, checker.stop)?;
    let checker = checker.at(&gateway, &[]);
    clients::run(&checker, "gateway")?;
    if checker.is_full {
        clients::run(&checker, "gateway, full")?;
    }
    let what = "tunnel and event stream during reloads";
    checker.check("node", what, || reload::check_open_streams(&checker, &config, &file))?;
    checker.row("thruway", "as a gateway", || gateway.end(checker.stop))
}
