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
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::program::{self, Profile};
use crate::server::Server;
use crate::stop::Stop;
use check::{Check, Outcome, Row, Setting};

/// Options of `cargo xtask interop`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Options {
    /// More requests, more connections, for longer.
    #[arg(long)]
    full: bool,
    /// Clients and servers of MCP too, themselves and through bridges, which are installed from npm, `PyPI`
    /// and crates.io when they are not there.
    #[arg(long)]
    mcp: bool,
    /// Only checks of which the client or the description holds one of these texts.
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…", conflicts_with = "gateway")]
    checks: Vec<String>,
    /// The `thruway` that is checked, instead of one that is built for it.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Instead: `thruway serve` as a gateway, between clients and upstreams that others wrote.
    #[arg(long, conflicts_with = "mcp")]
    gateway: bool,
    /// Instead: certificates from Pebble, which Go builds.
    #[arg(long, conflicts_with_all = ["mcp", "gateway"])]
    acme: bool,
    /// Instead: clients and servers of gRPC, which Go and pip bring, through the gateway and with our engine
    /// as the server; `--gateway --full` has them too.
    #[arg(long, conflicts_with_all = ["mcp", "gateway", "acme"])]
    grpc: bool,
    /// Instead: the findings of testssl.sh, sslyze (which is installed from `PyPI`) and tlsfuzzer about our
    /// TLS.
    #[arg(long, conflicts_with_all = ["mcp", "gateway", "acme", "grpc"])]
    tls: bool,
    /// A checkout of tlsfuzzer, for `--tls`
    #[arg(long, value_name = "DIR", requires = "tls")]
    tlsfuzzer: Option<PathBuf>,
    /// Instead: test suites of other gateways: HAProxy's http-messaging scenarios (`varnishtest`), the proxy
    /// files of nginx-tests (`perl`) and payloads of the HTTP Garden, each from a checkout
    #[arg(long, conflicts_with_all = ["mcp", "gateway", "acme", "grpc", "tls"])]
    outside: bool,
    #[command(flatten)]
    checkouts: outside::Checkouts,
    /// Profile of the `thruway` that is built.
    #[arg(long, value_enum, default_value_t = Profile::Dev)]
    profile: Profile,
}

impl Options {
    fn wants(&self, check: &Check) -> bool {
        let is_told = |text: &String| check.client.contains(&**text) || check.what.contains(&**text);
        self.checks.is_empty() || self.checks.iter().any(is_told)
    }
}

/// Builds the server, runs every check that there is a client for, and prints a table.
///
/// # Errors
/// A check failed, or a server did not start or did not end as it should.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = match &options.program {
        Some(program) => fs::canonicalize(program).context("there is no such program")?,
        None => program::build(options.profile, &Stop::new(program::BUILD_LIMIT)?)?,
    };
    let directory = tempfile::Builder::new().prefix("thruway-interop-").tempdir()?;
    fs::write(directory.path().join("content"), content())?;
    fs::write(directory.path().join("config.toml"), CONFIG)?;
    let stop = Stop::new(limit(options))?;
    let setting =
        Setting { program: &program, directory: directory.path(), is_full: options.full, stop: &stop };
    let rows = if options.acme {
        acme::run(&setting)?
    } else if options.gateway {
        gateway::run(&setting)?
    } else if options.outside {
        outside::run(&setting, &options.checkouts)?
    } else if options.grpc {
        grpc::run(&setting)?
    } else if options.tls {
        tls::run(&setting, options.tlsfuzzer.as_deref())?
    } else {
        run_all(&setting, options)?
    };
    print(&rows);
    let failed = rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed(_))).count();
    ensure!(failed == 0, "{failed} checks failed");
    Ok(())
}

fn limit(options: &Options) -> Duration {
    match (options.tls, options.full || options.mcp || options.grpc || options.acme || options.outside) {
        (true, _) => TLS_LIMIT,
        (false, true) => FULL_LIMIT,
        (false, false) => QUICK_LIMIT,
    }
}

fn run_all(setting: &Setting<'_>, options: &Options) -> anyhow::Result<Vec<Row>> {
    let &Setting { program, directory, stop, .. } = setting;
    let mut rows = Vec::new();
    let config = directory.join("config.toml");
    let config = config.to_string_lossy();
    let demo = program.to_string_lossy();
    for mut stage in stages(&config, &demo, options.mcp)? {
        stage.checks.retain(|check| options.wants(check));
        if stage.checks.is_empty() {
            continue;
        }
        let server = Server::start(program, &stage.arguments, &directory.join("server.log"), stop)?;
        let scene = setting.scene(server.url(), server.id(), stage.stdio);
        for check in stage.checks {
            rows.push(check::run_one(&check, &scene));
            stop.check()?;
        }
        rows.push(check::row("thruway", stage.name, || server.end(stop)));
    }
    Ok(rows)
}

/// A server of ours, and what is checked on it.
struct Stage<'s> {
    name: &'static str,
    arguments: Vec<&'s str>,
    /// See `Scene::stdio`.
    stdio: &'static [&'static str],
    checks: Vec<Check>,
}

/// Returns all stages. For a bridge to one era, the server on stdio is another bridge to that era, so that
/// messages pass both.
fn stages<'s>(config: &'s str, demo: &'s str, has_mcp: bool) -> anyhow::Result<Vec<Stage<'s>>> {
    let mut with_demo = Stage {
        name: "with the demo",
        arguments: vec!["serve", "--listen", "127.0.0.1:0"],
        stdio: &["mcp", "serve", "--stdio"],
        checks: clients::checks("demo")?,
    };
    let mut with_config = Stage {
        name: "with a config",
        arguments: vec!["serve", config],
        stdio: &[],
        checks: clients::checks("files")?,
    };
    with_config.checks.extend(slow::checks());
    if !has_mcp {
        return Ok(vec![with_demo, with_config]);
    }
    with_demo.checks.extend(clients::checks("mcp")?);
    with_demo.checks.extend(servers::checks()?);
    let bridge = |name, era, stdio| {
        let arguments = vec!["mcp", "bridge", "--listen", "127.0.0.1:0", "--era", era, "--"];
        let arguments = [arguments, vec![demo, "mcp", "serve", "--stdio"]].concat();
        anyhow::Ok(Stage { name, arguments, stdio, checks: clients::checks("mcp")? })
    };
    let to_modern = bridge("as a bridge to the modern era", "modern", TO_MODERN)?;
    let to_legacy = bridge("as a bridge to the legacy era", "legacy", TO_LEGACY)?;
    Ok(vec![with_demo, with_config, to_modern, to_legacy])
}

const TO_MODERN: &[&str] = &["mcp", "bridge", "{url}/mcp", "--era", "modern"];
const TO_LEGACY: &[&str] = &["mcp", "bridge", "{url}/mcp", "--era", "legacy"];

fn print(rows: &[Row]) {
    for row in rows {
        println!("{row}");
    }
    let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
    println!(
        "\n{} passed, {} failed, {} not installed",
        count(|outcome| matches!(outcome, Outcome::SkippedMessage(_))),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::NotInstalled)),
    );
}

/// Returns the content of uploads and downloads: long enough for several reads, with different lines.
fn content() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("line {n:09}\n").into_bytes()).collect()
}

/// Timeouts so short that attacks which live on patience are over soon, and a directory of files.
const CONFIG: &str = include_str!("config.toml");

const QUICK_LIMIT: Duration = Duration::from_mins(3);
/// Clients of MCP may have to be installed and built.
const FULL_LIMIT: Duration = Duration::from_mins(20);
/// Judges try a hundred things, each with a handshake or more, and wait for what must not come.
const TLS_LIMIT: Duration = Duration::from_mins(40);
