//! `cargo xtask interop --gateway`: `thruway serve` between clients and upstreams that others wrote.
//!
//! The corpus of framing tricks goes through it to each upstream, and the clients of the other checks go
//! through it to the demo.

// the corpus
mod seen;
mod answers;
mod upstreams;
mod corpus;

// configs that change
mod reload;

use std::fs;
use std::process::Command;

use anyhow::ensure;

use super::check::Scene;
use super::{clients, grpc, words};
use crate::program::find_on_path;
use crate::server::Server;
use upstreams::Upstream;

pub(super) use corpus::Pieces;

/// Runs every check that there is an upstream and a client for.
pub(super) fn run(scene: &Scene<'_>) -> anyhow::Result<()> {
    let variations = if scene.is_full { 10_000 } else { 1500 };
    run_cases(scene, "framing tricks", &corpus::own_cases(variations), variations / 4)?;
    run_clients(scene)?;
    if scene.is_full { grpc::run(scene) } else { Ok(()) }
}

/// Sends the cases through the gateway to each upstream that there is. More than `pass_min` requests must
/// pass.
pub(super) fn run_cases(
    scene: &Scene<'_>,
    name: &str,
    cases: &[Pieces],
    pass_min: usize,
) -> anyhow::Result<()> {
    for upstream in upstreams::all()?.iter().filter(|upstream| scene.is_full || !upstream.full_only) {
        let what = format!("{name} to {}", upstream.what);
        let check = || through(upstream, scene, cases, pass_min);
        match upstream.program.as_str() {
            "thruway" => scene.row("thruway", &what, check)?,
            program => scene.check(program, &what, check)?,
        }
    }
    Ok(())
}

/// Sends the cases through a gateway to one upstream.
fn through(
    upstream: &Upstream,
    scene: &Scene<'_>,
    cases: &[Pieces],
    pass_min: usize,
) -> anyhow::Result<String> {
    let (log, access_log) = (scene.directory.join("seen.log"), scene.directory.join("access.log"));
    let started = upstream.start(&log, scene)?;
    fs::write(&access_log, "")?;
    let config = include_str!("in_order.toml").replace("{backend}", &started.address);
    let gateway = Server::serve(scene.program, &config, &scene.directory.join("gateway.toml"), scene.stop)?;
    let mut place = corpus::Place {
        gateway: gateway.address().parse()?,
        log: seen::Log::new(&log),
        tells: !upstream.is_silent,
        stop: scene.stop,
    };
    let tally = place.check_all(cases, pass_min)?;
    gateway.end(scene.stop)?;
    let mut said = seen::forwarded(&access_log)?.into_iter();
    for (n, seen) in tally.seen.iter().enumerate() {
        // The access log has the port as a number, and no place for an empty one (RFC 3986 §3.2.3).
        let host = seen.host.strip_suffix(':').unwrap_or(&seen.host);
        let seen = [&seen.method, &seen.target, host].map(str::to_owned);
        let is_said = said.any(|said| said == seen);
        ensure!(is_said, "the upstream saw {seen:?}, request {n}; it is not there in the gateway's log");
    }
    let requests = tally.seen.len() - tally.cases;
    Ok(format!("{} cases, {requests} requests, {} refused behind", tally.cases, tally.refused))
}

fn run_clients(scene: &Scene<'_>) -> anyhow::Result<()> {
    let mut demo = Command::new(scene.program);
    demo.args(["serve", "--listen", "127.0.0.1:0"]);
    let demo = Server::start(demo, &scene.directory.join("demo.log"), scene.stop)?;
    let websocket = ["node", "{file:upstreams/websocket.mjs}"];
    let websocket = find_on_path("node").map(|_| words::start(&websocket, [], &[], "websocket", scene));
    let websocket = websocket.transpose()?;
    let config = include_str!("before_the_demo.toml")
        .replace("{demo}", demo.address())
        .replace("{websocket}", websocket.as_ref().unwrap_or(&demo).address());
    let file = scene.directory.join("gateway.toml");
    let gateway = Server::serve(scene.program, &config.replace("{generation}", "0"), &file, scene.stop)?;
    let scene = scene.at(&gateway, &[]);
    clients::run(&scene, "gateway")?;
    if scene.is_full {
        clients::run(&scene, "gateway, full")?;
    }
    let what = "a tunnel and events, during reloads";
    scene.check("node", what, || reload::streams_live_on(&scene, &config, &file))?;
    scene.row("thruway", "as a gateway", || gateway.end(scene.stop))
}
