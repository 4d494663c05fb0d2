//! `cargo xtask interop`: tests `thruway serve` with third-party clients, servers and test suites.
//!
//! Each check asserts the statuses, bodies, connections and failures that the client saw. The system chooses
//! the ports. If the client of a check is not installed, the task reports the missing client, but does not
//! fail.

// clients
mod check;
mod words;
mod clients;
mod slow;
mod servers;
mod federation;

// third-party upstream servers
mod gateway;
mod grpc;

// TLS test tools
mod tls;

// a third-party ACME server
mod acme;

// a third-party authorization server
mod issuer;

// the store of a fleet
mod redis;

// monitoring
mod prometheus;
mod traces;

// test suites of other gateways
mod outside;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::program;
use crate::server::Server;
use crate::stop::Stop;
use check::{Checker, Counts};

/// Options of `cargo xtask interop`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Options {
    /// Run longer checks, with more requests and connections
    #[arg(long)]
    full: bool,
    /// Also check MCP clients and servers, directly and through bridges. Installs missing clients and servers
    /// from npm, `PyPI` and crates.io
    #[arg(long, group = "kind")]
    mcp: bool,
    /// Check only MCP endpoints: third-party MCP clients, with third-party MCP servers as members. Installs
    /// missing clients and servers. Needs npm, Python, Go and cargo
    #[arg(long, group = "kind")]
    federation: bool,
    /// Check only `thruway serve` as a gateway between third-party clients and upstream servers
    #[arg(long, group = "kind")]
    gateway: bool,
    /// Check only certificates that the ACME server Pebble issues. Needs Go to build Pebble
    #[arg(long, group = "kind")]
    acme: bool,
    /// Check only the tokens for MCP servers, with the authorization server oidc-provider (installed from npm)
    #[arg(long, group = "kind")]
    issuer: bool,
    /// Check only the metrics, the alert rules and the Grafana dashboard in `deploy/`, with Prometheus (the
    /// installed programs, or Debian's package in `target/`)
    #[arg(long, group = "kind")]
    prometheus: bool,
    /// Check only the shared store, with the installed servers of Redis and Sentinel. The environment variable
    /// `REDIS_SERVER` selects another server program, such as `valkey-server`
    #[arg(long, group = "kind")]
    redis: bool,
    /// Check only traces, with programs in Python and, if Go is installed, with the OpenTelemetry Collector
    #[arg(long, group = "kind")]
    traces: bool,
    /// Check only gRPC: third-party clients and servers through the gateway, and our engine as a gRPC server.
    /// Needs Go and pip. `--gateway --full` includes these checks
    #[arg(long, group = "kind")]
    grpc: bool,
    /// Check only TLS, with testssl.sh, sslyze (installed from `PyPI`) and tlsfuzzer
    #[arg(long, group = "kind")]
    tls: bool,
    /// A checkout of tlsfuzzer, for `--tls`
    #[arg(long, value_name = "DIR", requires = "tls")]
    tlsfuzzer: Option<PathBuf>,
    /// Run only test suites of other gateways: HAProxy's http-messaging scenarios (`varnishtest`), the proxy
    /// tests of nginx (`perl`) and payloads of the HTTP Garden. Each suite needs a checkout
    #[arg(long, group = "kind")]
    outside: bool,
    #[command(flatten)]
    checkouts: outside::Checkouts,
}

/// Builds the server, and runs all checks whose client is installed.
///
/// # Errors
/// A check failed, or a server did not start or end correctly.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = program::thruway(&Stop::new(program::BUILD_LIMIT)?)?;
    let directory = tempfile::Builder::new().prefix("thruway-interop-").tempdir()?;
    // The body of uploads and downloads has different lines, and is long enough for several reads.
    let content: Vec<u8> = (0..20_000).flat_map(|n| format!("line {n:09}\n").into_bytes()).collect();
    fs::write(directory.path().join("content"), content)?;
    let (stop, counts) = (Stop::new(LIMIT)?, Counts::default());
    let checker = Checker {
        program: &program,
        directory: directory.path(),
        is_full: options.full,
        stop: &stop,
        counts: &counts,
        url: String::new(),
        server: 0,
        stdio: &[],
    };
    if options.acme {
        acme::run(&checker)?;
    } else if options.issuer {
        issuer::run(&checker)?;
    } else if options.prometheus {
        prometheus::run(&checker)?;
    } else if options.redis {
        redis::run(&checker)?;
    } else if options.traces {
        traces::run(&checker)?;
    } else if options.federation {
        federation::run(&checker)?;
    } else if options.gateway {
        gateway::run(&checker)?;
    } else if options.outside {
        outside::run(&checker, &options.checkouts)?;
    } else if options.grpc {
        grpc::run(&checker)?;
    } else if options.tls {
        tls::run(&checker, options.tlsfuzzer.as_deref())?;
    } else {
        run_clients(&checker, options.mcp)?;
    }
    counts.report()
}

/// Checks our servers with HTTP clients. If `has_mcp`, also checks MCP clients, servers and bridges.
fn run_clients(checker: &Checker<'_>, has_mcp: bool) -> anyhow::Result<()> {
    let config = checker.directory.join("config.toml");
    // This config has a directory of files. Its short timeouts let the tests of slow attacks end soon.
    fs::write(&config, include_str!("config.toml"))?;
    with_server(checker, "with the demo", &["serve", "--listen", LISTEN], &ON_STDIO, |checker| {
        clients::run(checker, "demo")?;
        if has_mcp {
            clients::run(checker, "mcp")?;
            servers::run(checker)?;
        }
        Ok(())
    })?;
    with_server(checker, "with a config", &["serve", &config.to_string_lossy()], &[], |checker| {
        clients::run(checker, "files")?;
        slow::run(checker)
    })?;
    let program = checker.program.to_string_lossy();
    for era in ["modern", "legacy"].into_iter().filter(|_| has_mcp) {
        let bridge = [&["mcp", "bridge", "--listen", LISTEN, "--era", era, "--", &*program], &ON_STDIO[..]];
        // The MCP server on stdio is a second bridge with the same era, so messages pass through both
        // bridges.
        let on_stdio = ["mcp", "bridge", "{url}/mcp", "--era", era];
        let name = format!("as a bridge to the {era} era");
        with_server(checker, &name, &bridge.concat(), &on_stdio, |checker| clients::run(checker, "mcp"))?;
    }
    Ok(())
}

/// Starts `thruway` with these arguments, runs checks, and checks that the server ends correctly.
fn with_server(
    checker: &Checker<'_>,
    name: &str,
    arguments: &[&str],
    on_stdio: &[&str],
    checks: impl Fn(&Checker<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut command = Command::new(checker.program);
    command.args(arguments);
    let server = Server::start(command, &checker.directory.join("server.log"), checker.stop)?;
    checks(&checker.at(&server, on_stdio))?;
    checker.row("thruway", name, || server.end(checker.stop))
}

const LISTEN: &str = "127.0.0.1:0";
const ON_STDIO: [&str; 3] = ["mcp", "serve", "--stdio"];

/// Time limit of the run. Each check also has its own limit.
const LIMIT: Duration = Duration::from_mins(40);
