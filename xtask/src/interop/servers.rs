//! MCP servers that others wrote, as `servers.toml` lists them, asked by `thruway mcp`, and through `thruway
//! mcp bridge` in both directions.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::ensure;
use serde::Deserialize;

use super::check::Scene;
use super::words;
use crate::program::repository;
use crate::server::Server;
use crate::{list, packages};

/// A server, and a call that tells whether it is understood.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    client: String,
    what: String,
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Its endpoint, if it is a server over HTTP.
    path: Option<String>,
    call: Vec<String>,
    answer: String,
    /// A tool that asks the user something.
    asks: Option<String>,
    /// The era in which it can.
    #[serde(default = "auto")]
    era: String,
}

fn auto() -> String {
    "auto".to_owned()
}

fn servers() -> anyhow::Result<Vec<Subject>> {
    list::read(include_str!("servers.toml"))
}

/// Checks each server.
pub(super) fn run(scene: &Scene<'_>) -> anyhow::Result<()> {
    fs::write(scene.directory.join("read-me"), "read")?;
    for subject in servers()? {
        scene.check(&subject.client, &subject.what, || match &subject.path {
            Some(path) => subject.check_over_http(scene, path),
            None => subject.check_on_stdio(scene),
        })?;
    }
    Ok(())
}

impl Subject {
    /// Asks a server on stdio, through a bridge over HTTP, and then through another one, back on stdio.
    fn check_on_stdio(&self, scene: &Scene<'_>) -> anyhow::Result<String> {
        let command = words::filled(&self.command, &[], scene)?;
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        for era in ["auto", "legacy"] {
            self.call(scene, None, &[&["--era", era, "--"], &command[..]].concat())?;
        }
        let mut bridge = Command::new(scene.program);
        bridge.args(["mcp", "bridge", "--listen", "127.0.0.1:0", "--era", &self.era, "--"]).args(command);
        let bridge = Server::start(bridge, &scene.directory.join("bridge.log"), scene.stop)?;
        let url = format!("{}/mcp", bridge.url());
        for era in ["modern", "legacy"] {
            self.call(scene, Some(&url), &["--era", era])?;
        }
        self.asked(scene, &[&url])?;
        let said = self.through(scene, &url, "auto")?;
        bridge.end(scene.stop)?;
        Ok(said)
    }

    /// Asks a server over HTTP, and through a bridge on stdio.
    fn check_over_http(&self, scene: &Scene<'_>, path: &str) -> anyhow::Result<String> {
        let server = words::start(&self.command, &self.env, &[], "listening", scene)?;
        let url = server.url() + path;
        for era in ["auto", "legacy"] {
            self.call(scene, Some(&url), &["--era", era])?;
        }
        self.through(scene, &url, &self.era)
    }

    /// Asks the server at `url` through a bridge on stdio, which speaks `far` with it.
    fn through(&self, scene: &Scene<'_>, url: &str, far: &str) -> anyhow::Result<String> {
        let program = scene.program.to_string_lossy();
        let bridge = [&*program, "mcp", "bridge", url, "--era", far];
        for era in ["modern", "legacy"] {
            self.call(scene, None, &[&["--era", era, "--"], &bridge[..]].concat())?;
        }
        self.asked(scene, &bridge)?;
        let asked = if self.asks.is_some() { ", and asked," } else { "" };
        Ok(format!("called{asked} in both eras"))
    }

    /// Lets the server ask a client that calls it in both eras, at a URL or on stdio.
    fn asked(&self, scene: &Scene<'_>, target: &[&str]) -> anyhow::Result<()> {
        let Some(tool) = &self.asks else { return Ok(()) };
        let mut command = Command::new(packages::python("mcp-2", scene.stop)?.join("python"));
        command.arg("-I").arg(repository().join("xtask/src/interop/servers/ask.py")).arg(tool).args(target);
        scene.output("a client that is asked", command).map(drop)
    }

    /// Calls the tool.
    fn call(&self, scene: &Scene<'_>, url: Option<&str>, further: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(scene.program);
        command.args(["mcp", "call"]).args(url).args(words::filled(&self.call, &[], scene)?).args(further);
        let printed = scene.output("thruway mcp call", command)?;
        // Some servers print a greeting.
        ensure!(printed.lines().any(|line| line == self.answer), "{further:?}: it printed {printed}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_can_be_read() {
        assert_eq!(super::servers().unwrap().len(), 14);
    }
}
