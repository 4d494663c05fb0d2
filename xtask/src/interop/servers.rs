//! MCP servers that others wrote, as `servers.toml` lists them, asked by `thruway mcp`, and through `thruway
//! mcp bridge` in both directions.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use anyhow::ensure;
use serde::Deserialize;

use super::check::{Check, Scene};
use super::words;
use crate::child::Running;
use crate::packages;
use crate::server::Server;

/// The list in `servers.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    server: Vec<Subject>,
}

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

/// Returns a check for each server.
pub(super) fn checks() -> anyhow::Result<Vec<Check>> {
    let list: List = toml::from_str(include_str!("servers.toml"))?;
    let check = |subject: Subject| {
        let (client, what) = (subject.client.clone(), subject.what.clone());
        Check::new(&client, &what, move |scene| subject.check(scene))
    };
    Ok(list.server.into_iter().map(check).collect())
}

impl Subject {
    fn check(&self, scene: &Scene<'_>) -> anyhow::Result<String> {
        fs::write(scene.directory.join("read-me"), "read")?;
        match &self.path {
            Some(path) => {
                let (_server, url) = self.listen(scene)?;
                self.check_at(scene, &format!("{url}{path}"))
            }
            None => self.check_on_stdio(scene),
        }
    }

    /// Starts a server over HTTP at a free port, and waits until it listens. Dropping it ends it.
    fn listen(&self, scene: &Scene<'_>) -> anyhow::Result<(Running, String)> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let places = [("port", address.port().to_string())];
        let mut command = words::command(&self.command, &places, scene)?;
        for (name, value) in &self.env {
            command.env(name, words::text(value, &places, scene)?);
        }
        let log = scene.directory.join("listening.log");
        let running = Running::start_listening(command, address, &log, scene.stop)?;
        Ok((running, format!("http://{address}")))
    }

    /// Asks a server on stdio, through a bridge over HTTP, and then through another one, back on stdio.
    fn check_on_stdio(&self, scene: &Scene<'_>) -> anyhow::Result<String> {
        let command = words::filled(&self.command, &[], scene)?;
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        for era in ["auto", "legacy"] {
            self.call(scene, None, &[&["--era", era, "--"], &command[..]].concat())?;
        }
        let listening = ["mcp", "bridge", "--listen", "127.0.0.1:0"];
        let arguments = [&listening[..], &["--era", &self.era, "--"], &command[..]].concat();
        let log = scene.directory.join("bridge.log");
        let bridge = Server::start(scene.program, &arguments, &log, scene.stop)?;
        let url = format!("{}/mcp", bridge.url());
        let outcome = ["modern", "legacy"]
            .iter()
            .try_for_each(|era| self.call(scene, Some(&url), &["--era", era]))
            .and_then(|()| self.asked(scene, &[&url]))
            .and_then(|()| self.through(scene, &url, "auto"));
        bridge.end(scene.stop)?;
        outcome
    }

    /// Asks a server over HTTP, and through a bridge on stdio.
    fn check_at(&self, scene: &Scene<'_>, url: &str) -> anyhow::Result<String> {
        for era in ["auto", "legacy"] {
            self.call(scene, Some(url), &["--era", era])?;
        }
        self.through(scene, url, &self.era)
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
        let mut command = Command::new(packages::python("mcp-2", scene.stop)?);
        command.args(["-I", "-c", ASK, tool]).args(target);
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

const ASK: &str = include_str!("servers/ask.py");

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_can_be_read() {
        assert_eq!(super::checks().unwrap().len(), 14);
    }
}
