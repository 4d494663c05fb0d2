//! `cargo xtask interop`: clients that others wrote, against `thruway serve`.
//!
//! Every check asserts what the client saw: statuses, contents, connections, failures. Ports are chosen by
//! the system, and a client that is not installed is reported as such and fails nothing.

// the clients
mod check;
mod words;
mod clients;
mod slow;
mod servers;

// before upstreams that others wrote
mod gateway;
mod grpc;

// with judges of TLS
mod tls;

// with an ACME server that others wrote
mod acme;

// suites of other gateways
mod outside;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::program;
use crate::server::Server;
use crate::stop::Stop;
use check::{Counts, Scene};

/// Options of `cargo xtask interop`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Options {
    /// More requests, more connections, for longer.
    #[arg(long)]
    full: bool,
    /// Clients and servers of MCP too, themselves and through bridges, which are installed from npm, `PyPI`
    /// and crates.io when they are not there.
    #[arg(long, group = "kind")]
    mcp: bool,
    /// Instead: `thruway serve` as a gateway, between clients and upstreams that others wrote.
    #[arg(long, group = "kind")]
    gateway: bool,
    /// Instead: certificates from Pebble, which Go builds.
    #[arg(long, group = "kind")]
    acme: bool,
    /// Instead: clients and servers of gRPC, which Go and pip bring, through the gateway and with our engine
    /// as the server; `--gateway --full` has them too.
    #[arg(long, group = "kind")]
    grpc: bool,
    /// Instead: the findings of testssl.sh, sslyze (which is installed from `PyPI`) and tlsfuzzer about our
    /// TLS.
    #[arg(long, group = "kind")]
    tls: bool,
    /// A checkout of tlsfuzzer, for `--tls`
    #[arg(long, value_name = "DIR", requires = "tls")]
    tlsfuzzer: Option<PathBuf>,
    /// Instead: test suites of other gateways: HAProxy's http-messaging scenarios (`varnishtest`), the proxy
    /// files of nginx-tests (`perl`) and payloads of the HTTP Garden, each from a checkout
    #[arg(long, group = "kind")]
    outside: bool,
    #[command(flatten)]
    checkouts: outside::Checkouts,
}

/// Builds the server, and runs every check that there is a client for.
///
/// # Errors
/// A check failed, or a server did not start or did not end as it should.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = program::thruway(&Stop::new(program::BUILD_LIMIT)?)?;
    let directory = tempfile::Builder::new().prefix("thruway-interop-").tempdir()?;
    // Content of uploads and downloads: long enough for several reads, with different lines.
    let content: Vec<u8> = (0..20_000).flat_map(|n| format!("line {n:09}\n").into_bytes()).collect();
    fs::write(directory.path().join("content"), content)?;
    let (stop, counts) = (Stop::new(LIMIT)?, Counts::default());
    let scene = Scene {
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
        acme::run(&scene)?;
    } else if options.gateway {
        gateway::run(&scene)?;
    } else if options.outside {
        outside::run(&scene, &options.checkouts)?;
    } else if options.grpc {
        grpc::run(&scene)?;
    } else if options.tls {
        tls::run(&scene, options.tlsfuzzer.as_deref())?;
    } else {
        run_clients(&scene, options.mcp)?;
    }
    counts.report()
}

/// Checks servers of ours with clients of HTTP and, if `has_mcp`, with clients of MCP and servers behind us.
fn run_clients(scene: &Scene<'_>, has_mcp: bool) -> anyhow::Result<()> {
    let config = scene.directory.join("config.toml");
    // Timeouts so short that attacks which live on patience are over soon, and a directory of files.
    fs::write(&config, include_str!("config.toml"))?;
    with_server(scene, "with the demo", &["serve", "--listen", LISTEN], &ON_STDIO, |scene| {
        clients::run(scene, "demo")?;
        if has_mcp {
            clients::run(scene, "mcp")?;
            servers::run(scene)?;
        }
        Ok(())
    })?;
    with_server(scene, "with a config", &["serve", &config.to_string_lossy()], &[], |scene| {
        clients::run(scene, "files")?;
        slow::run(scene)
    })?;
    let program = scene.program.to_string_lossy();
    for era in ["modern", "legacy"].into_iter().filter(|_| has_mcp) {
        let bridge = [&["mcp", "bridge", "--listen", LISTEN, "--era", era, "--", &*program], &ON_STDIO[..]];
        // The server on stdio is another bridge to the era, so that messages pass both.
        let on_stdio = ["mcp", "bridge", "{url}/mcp", "--era", era];
        let name = format!("as a bridge to the {era} era");
        with_server(scene, &name, &bridge.concat(), &on_stdio, |scene| clients::run(scene, "mcp"))?;
    }
    Ok(())
}

/// Starts `thruway` with these arguments, runs checks on it, and checks that it ends as it should.
fn with_server(
    scene: &Scene<'_>,
    name: &str,
    arguments: &[&str],
    on_stdio: &[&str],
    checks: impl Fn(&Scene<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut command = Command::new(scene.program);
    command.args(arguments);
    let server = Server::start(command, &scene.directory.join("server.log"), scene.stop)?;
    checks(&scene.at(&server, on_stdio))?;
    scene.row("thruway", name, || server.end(scene.stop))
}

const LISTEN: &str = "127.0.0.1:0";
const ON_STDIO: [&str; 3] = ["mcp", "serve", "--stdio"];

/// Each check has a limit of its own.
const LIMIT: Duration = Duration::from_mins(40);
