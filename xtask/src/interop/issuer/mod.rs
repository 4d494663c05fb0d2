//! `cargo xtask interop --issuer`: MCP servers whose tokens come from oidc-provider, an authorization server for
//! Node.js.

use std::collections::BTreeMap;

use super::check::Checker;
use super::words;
use crate::program::find_on_path;
use crate::server::Server;

/// Tests token exchange, enterprise-managed authorization (ID-JAG) and client credentials.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    let what = "tokens for MCP servers";
    if find_on_path("npm").is_none() {
        checker.not_installed("oidc-provider", what);
        return Ok(());
    }
    checker.row("oidc-provider", what, || tokens(checker))
}

fn tokens(checker: &Checker<'_>) -> anyhow::Result<String> {
    let mut running = Vec::new();
    let mut addresses: Vec<(&str, String)> = Vec::new();
    for (name, file, issuer) in SERVERS {
        let file = format!("{{npm-file:issuer:issuer/{file}}}");
        let words = ["{node:issuer}", &file, "{port}", issuer];
        let server = words::start(&words, &BTreeMap::new(), &addresses, name, checker)?;
        addresses.push((name, server.address().to_owned()));
        running.push(server);
    }
    let config = words::replaced(include_str!("thruway.toml"), &addresses);
    let file = checker.directory.join("issuer.toml");
    let thruway = Server::serve(checker.program, &config, &file, checker.stop)?;
    addresses.push(("endpoint", thruway.address().to_owned()));
    addresses.push(("log", file.with_extension("log").display().to_string()));
    let printed = checker.output("the callers", words::command(&CALLERS, &addresses, checker)?)?;
    thruway.end(checker.stop)?;
    Ok(printed.trim_end().to_owned())
}

/// The servers in the order of their start: name, program, and the URL of their issuer.
const SERVERS: [(&str, &str, &str); 5] = [
    ("provider", "provider.mjs", ""),
    ("authorization", "provider.mjs", "http://{provider}"),
    ("exchange", "member.mjs", "http://{provider}"),
    ("enterprise", "member.mjs", "http://{authorization}"),
    ("own", "member.mjs", "http://{provider}"),
];

const CALLERS: [&str; 8] = [
    "{node:issuer}",
    "{npm-file:issuer:issuer/callers.mjs}",
    "http://{endpoint}",
    "http://{provider}",
    "http://{exchange}",
    "http://{enterprise}",
    "http://{own}",
    "{log}",
];
