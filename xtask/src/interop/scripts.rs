//! The clients of three languages, each with a program of its own that asserts what it sees.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::check::{Check, Scene};
use crate::child;

pub(super) const CHECKS: &[&Check] = &[
    &Check { client: "python3", what: "http.client", run: python },
    &Check { client: "node", what: "node:http, an agent that keeps", run: node },
    &Check { client: "go", what: "net/http", run: go },
];

/// The same, through a gateway.
pub(super) const GATEWAY_CHECKS: &[&Check] = &[
    &Check { client: "python3", what: "http.client", run: python_through_a_gateway },
    &Check { client: "node", what: "node:http, an agent that keeps", run: node },
    &Check { client: "go", what: "net/http", run: go },
];

fn python(scene: &Scene<'_>) -> anyhow::Result<String> {
    run(scene, "python3", python_command())
}

fn python_through_a_gateway(scene: &Scene<'_>) -> anyhow::Result<String> {
    let mut command = python_command();
    command.arg("--gateway");
    run(scene, "python3", command)
}

fn python_command() -> Command {
    let mut command = Command::new("python3");
    // Without what the user or the environment would add.
    command.args(["-I", "-c", PYTHON]);
    command
}

fn node(scene: &Scene<'_>) -> anyhow::Result<String> {
    let script = scene.directory.join("client.mjs");
    fs::write(&script, NODE)?;
    let mut command = Command::new("node");
    command.arg(script);
    run(scene, "node", command)
}

fn go(scene: &Scene<'_>) -> anyhow::Result<String> {
    let source = scene.directory.join("client.go");
    fs::write(&source, GO)?;
    let program = scene.directory.join("client");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source).current_dir(scene.directory);
    build.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    child::output_of("go build", build, GO_BUILD, scene.stop)?;
    run(scene, "the client in Go", Command::new(program))
}

/// Runs a client with the address as its last argument; its last line says what it did.
fn run(scene: &Scene<'_>, what: &str, mut command: Command) -> anyhow::Result<String> {
    command.arg(&scene.url);
    let printed = scene.output(what, command)?;
    Ok(printed.lines().last().context("it printed nothing")?.to_owned())
}

const PYTHON: &str = include_str!("clients/client.py");
const NODE: &str = include_str!("clients/client.mjs");
const GO: &str = include_str!("clients/client.go");

/// The first build compiles the standard library.
const GO_BUILD: Duration = Duration::from_secs(90);
