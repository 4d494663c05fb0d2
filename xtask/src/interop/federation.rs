//! Checks third-party MCP clients on endpoints whose members are third-party MCP servers and the demo server.
//!
//! All clients of the demo server use an endpoint with plain names. On an endpoint with prefixed names, each
//! client calls a tool of each member: `federation/calls.json`.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::check::Checker;
use super::{clients, words};
use crate::program::find_on_path;
use crate::server::Server;

/// Starts the members and the endpoints, and runs all clients. Does nothing if the programs that install the
/// members are missing.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    if let Some(program) = ["npm", "python3", "go"].into_iter().find(|name| find_on_path(name).is_none()) {
        checker.not_installed(program, "MCP endpoints with six members");
        return Ok(());
    }
    fs::write(checker.directory.join("read-me"), "read")?;
    fs::write(checker.directory.join("memory.json"), MEMORY)?;
    let mut command = Command::new(checker.program);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let demo = Server::start(command, &checker.directory.join("demo.log"), checker.stop)?;
    let no_variables = BTreeMap::new();
    let go = words::start(&GO_SDK, &no_variables, &[], "gosdk", checker)?;
    let placeholders = [("demo", demo.address().to_owned()), ("gosdk", go.address().to_owned())];
    let config = words::text(include_str!("federation/config.toml"), &placeholders, checker)?;
    let file = checker.directory.join("federation.toml");
    let gateway = Server::serve(checker.program, &config, &file, checker.stop)?;
    let at_gateway = checker.at(&gateway, &ON_STDIO);
    clients::run(&at_gateway, "mcp")?;
    clients::run(&at_gateway, "federation")?;
    checker.row("thruway", "with MCP endpoints", || gateway.end(checker.stop))
}

const GO_SDK: [&str; 3] = ["{go:servers/go}/gosdk", "--listen", "127.0.0.1:{port}"];

/// The MCP server on stdio for clients: a bridge to the endpoint with plain names.
const ON_STDIO: [&str; 3] = ["mcp", "bridge", "{url}/mcp"];

/// The content of the memory server.
const MEMORY: &str = concat!(
    r#"{"type":"entity","name":"Ada","entityType":"person","observations":["Countess of Lovelace"]}"#,
    "\n"
);
