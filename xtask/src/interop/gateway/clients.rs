//! Clients that others wrote, through a gateway: those of the other checks come from there; here stand those with tunnels.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::interop::check::{Check, Scene};
use crate::interop::packages;

pub(super) const CHECKS: &[&Check] =
    &[&Check { client: "node", what: "fetch, events, WebSocket", run: fetch }];

/// Those that are installed first.
pub(super) const FULL_CHECKS: &[&Check] =
    &[&Check { client: "python3", what: "requests, websockets", run: requests }];

fn fetch(scene: &Scene<'_>) -> anyhow::Result<String> {
    let script = scene.directory.join("gateway.mjs");
    fs::write(&script, FETCH)?;
    let mut command = Command::new("node");
    // Node 20 has WebSocket, and wants to be asked for it.
    command.args(["--no-warnings", "--experimental-websocket"]).arg(script);
    run(scene, "node", command)
}

fn requests(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("gateway", packages::GATEWAY, scene.stop)?;
    run(scene, "requests and websockets", script(&python))
}

fn script(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-I", "-c", REQUESTS]);
    command
}

/// Runs a client with the address as its last argument; its last line says what it did.
fn run(scene: &Scene<'_>, what: &str, mut command: Command) -> anyhow::Result<String> {
    command.arg(&scene.url);
    let printed = scene.output(what, command)?;
    Ok(printed.lines().last().context("it printed nothing")?.to_owned())
}

const FETCH: &str = include_str!("../clients/gateway.mjs");
const REQUESTS: &str = include_str!("../clients/gateway.py");
