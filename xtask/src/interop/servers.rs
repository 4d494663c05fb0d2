//! Checks the third-party MCP servers in `servers.toml`. `thruway mcp call` calls each server directly, and
//! through `thruway mcp bridge` in both directions.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::ensure;
use serde::Deserialize;

use super::check::Checker;
use super::words;
use crate::program::repository;
use crate::server::Server;
use crate::{list, packages};

/// A server, and a tool call with its expected result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct McpServer {
    client: String,
    what: String,
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The path of the HTTP endpoint of the server.
    path: Option<String>,
    call: Vec<String>,
    answer: String,
    /// A tool that uses elicitation.
    asks: Option<String>,
    /// The protocol era in which this tool works.
    #[serde(default = "auto")]
    era: String,
}

fn auto() -> String {
    "auto".to_owned()
}

fn servers() -> anyhow::Result<Vec<McpServer>> {
    list::read(include_str!("servers.toml"))
}

/// Checks each server.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    fs::write(checker.directory.join("read-me"), "read")?;
    for server in servers()? {
        checker.check(&server.client, &server.what, || match &server.path {
            Some(path) => server.check_over_http(checker, path),
            None => server.check_on_stdio(checker),
        })?;
    }
    Ok(())
}

impl McpServer {
    /// Calls a server on stdio in three ways: directly, through a bridge with HTTP, and through this bridge
    /// and a second bridge with stdio.
    fn check_on_stdio(&self, checker: &Checker<'_>) -> anyhow::Result<String> {
        let command = words::filled(&self.command, &[], checker)?;
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        for era in ["auto", "legacy"] {
            self.call(checker, None, &[&["--era", era, "--"], &command[..]].concat())?;
        }
        let mut bridge = Command::new(checker.program);
        bridge.args(["mcp", "bridge", "--listen", "127.0.0.1:0", "--era", &self.era, "--"]).args(command);
        let bridge = Server::start(bridge, &checker.directory.join("bridge.log"), checker.stop)?;
        let url = format!("{}/mcp", bridge.url());
        for era in ["modern", "legacy"] {
            self.call(checker, Some(&url), &["--era", era])?;
        }
        self.check_elicitation(checker, &[&url])?;
        let summary = self.call_through_bridge(checker, &url, "auto")?;
        bridge.end(checker.stop)?;
        Ok(summary)
    }

    /// Calls a server over HTTP, directly and through a bridge with stdio.
    fn check_over_http(&self, checker: &Checker<'_>, path: &str) -> anyhow::Result<String> {
        let server = words::start(&self.command, &self.env, &[], "listening", checker)?;
        let url = server.url() + path;
        for era in ["auto", "legacy"] {
            self.call(checker, Some(&url), &["--era", era])?;
        }
        self.call_through_bridge(checker, &url, &self.era)
    }

    /// Calls the server at `url` through a bridge with stdio. The bridge uses the era `server_era` with the
    /// server.
    fn call_through_bridge(
        &self,
        checker: &Checker<'_>,
        url: &str,
        server_era: &str,
    ) -> anyhow::Result<String> {
        let program = checker.program.to_string_lossy();
        let bridge = [&*program, "mcp", "bridge", url, "--era", server_era];
        for era in ["modern", "legacy"] {
            self.call(checker, None, &[&["--era", era, "--"], &bridge[..]].concat())?;
        }
        self.check_elicitation(checker, &bridge)?;
        let elicited = if self.asks.is_some() { ", with elicitation," } else { "" };
        Ok(format!("called{elicited} in both eras"))
    }

    /// Calls the tool with elicitation in both eras. `target` is a URL or a command for stdio.
    fn check_elicitation(&self, checker: &Checker<'_>, target: &[&str]) -> anyhow::Result<()> {
        let Some(tool) = &self.asks else { return Ok(()) };
        let mut command = Command::new(packages::python("mcp-2", checker.stop)?.join("python"));
        command.arg("-I").arg(repository().join("xtask/src/interop/servers/ask.py")).arg(tool).args(target);
        checker.output("a client with elicitation", command).map(drop)
    }

    /// Calls the tool and checks the result.
    fn call(&self, checker: &Checker<'_>, url: Option<&str>, options: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(checker.program);
        command.args(["mcp", "call"]).args(url).args(words::filled(&self.call, &[], checker)?).args(options);
        let printed = checker.output("thruway mcp call", command)?;
        // The server may also print a greeting.
        ensure!(printed.lines().any(|line| line == self.answer), "{options:?}: unexpected output: {printed}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn server_list_is_valid() {
        assert_eq!(super::servers().unwrap().len(), 14);
    }
}
