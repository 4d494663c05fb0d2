//! `cargo xtask interop --gateway`: `thruway serve` between clients and upstreams that others wrote.
//!
//! The corpus of framing tricks goes through it to each upstream, and the clients of the other checks go
//! through it to the demo.

// the corpus
mod seen;
mod answers;
mod ours;
mod upstreams;
mod corpus;

// configs that change
mod reload;

use std::fs;
use std::path::Path;

use anyhow::ensure;

use super::check::{self, Row, Setting};
use super::{clients, grpc};
use crate::program::find_on_path;
use crate::server::Server;
use crate::stop::Stop;
use reload::CONFIG_FILE;
use upstreams::Upstream;

pub(super) use corpus::Cases;

/// Runs every check that there is an upstream and a client for.
pub(super) fn run(setting: &Setting<'_>) -> anyhow::Result<Vec<Row>> {
    let cases = Cases::Own(if setting.is_full { FULL_CASES } else { QUICK_CASES });
    let mut rows = run_cases(setting, &cases)?;
    rows.extend(run_clients(setting)?);
    Ok(rows)
}

/// Sends the cases through the gateway to each upstream that there is.
pub(super) fn run_cases(setting: &Setting<'_>, cases: &Cases) -> anyhow::Result<Vec<Row>> {
    let name = match cases {
        Cases::Own(_) => "framing tricks",
        Cases::Payloads(_) => "HTTP Garden",
    };
    let mut rows = Vec::new();
    for upstream in upstreams::all()?.iter().filter(|upstream| setting.is_full || !upstream.full_only) {
        let Upstream { program, what, .. } = upstream;
        let what = format!("{name} to {what}");
        if program != "thruway" && find_on_path(program).is_none() {
            rows.push(Row::not_installed(program, &what));
            continue;
        }
        eprintln!("{program}: {what}");
        rows.push(check::row(program, &what, || through(upstream, setting, cases)));
        setting.stop.check()?;
    }
    Ok(rows)
}

/// Sends the cases through a gateway to one upstream.
fn through(upstream: &Upstream, setting: &Setting<'_>, cases: &Cases) -> anyhow::Result<String> {
    let &Setting { program, directory, stop, .. } = setting;
    let (log, access_log) = (directory.join("seen.log"), directory.join(ACCESS_LOG));
    let started = upstream.start(&log, &setting.scene(String::new(), 0, &[]))?;
    fs::write(&access_log, "")?;
    let config = IN_ORDER.replace("{backend}", &started.address);
    let gateway = Server::serve(program, &config, &directory.join(CONFIG_FILE), stop)?;
    let mut place = corpus::Place {
        gateway: gateway.address().parse()?,
        log: seen::Log::new(&log),
        tells: upstream.tells,
        stop,
    };
    let tally = place.check_all(cases)?;
    gateway.end(stop)?;
    let mut said = seen::forwarded(&access_log)?.into_iter();
    for (n, seen) in tally.seen.iter().enumerate() {
        let seen = [&seen.method, &seen.target, &seen.host].map(String::clone);
        let is_said = said.any(|said| said == seen);
        ensure!(
            is_said,
            "the upstream saw {seen:?}, request {n}, of which the gateway's log says nothing there"
        );
    }
    let requests = tally.seen.len() - tally.cases;
    Ok(format!("{} cases, {requests} requests, {} refused behind", tally.cases, tally.refused))
}

fn run_clients(setting: &Setting<'_>) -> anyhow::Result<Vec<Row>> {
    let &Setting { program, directory, is_full, stop } = setting;
    let demo =
        Server::start(program, &["serve", "--listen", "127.0.0.1:0"], &directory.join("demo.log"), stop)?;
    let has_node = find_on_path("node").is_some();
    let websocket = has_node.then(|| start_websocket(directory, stop)).transpose()?;
    let config = BEFORE_THE_DEMO
        .replace("{demo}", demo.address())
        .replace("{websocket}", websocket.as_ref().unwrap_or(&demo).address());
    let config = config + &reload::generation(0);
    let gateway = Server::serve(program, &config, &directory.join(CONFIG_FILE), stop)?;
    let scene = setting.scene(gateway.url(), gateway.id(), &[]);
    let mut checks = clients::checks("gateway")?;
    if is_full {
        checks.extend(clients::checks("gateway, full")?);
    }
    checks.push(reload::check());
    let mut rows = Vec::new();
    for check in &checks {
        rows.push(check::run_one(check, &scene));
        stop.check()?;
    }
    rows.push(check::row("thruway", "as a gateway", || gateway.end(stop)));
    if is_full {
        rows.extend(grpc::run(setting)?);
    }
    Ok(rows)
}

fn start_websocket(directory: &Path, stop: &Stop) -> anyhow::Result<Server> {
    let script = directory.join("websocket.mjs");
    fs::write(&script, WEBSOCKET)?;
    Server::start(Path::new("node"), &[script], &directory.join("websocket.log"), stop)
}

const ACCESS_LOG: &str = "access.log";
const WEBSOCKET: &str = include_str!("../upstreams/websocket.mjs");

/// One worker, one request of a connection after the other, each sent once, so that all logs have the same
/// order.
const IN_ORDER: &str = include_str!("in_order.toml");

const BEFORE_THE_DEMO: &str = include_str!("before_the_demo.toml");

const QUICK_CASES: usize = 1500;
const FULL_CASES: usize = 10_000;
