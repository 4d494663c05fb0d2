//! `cargo xtask interop`: clients that others wrote, against `thruway serve`.
//!
//! Every check asserts what the client saw: statuses, contents, connections, failures. Ports are chosen by the system,
//! and a client that is not installed is reported as such and fails nothing.

// the clients
mod check;
mod curl;
mod load;
mod slow;
mod scripts;
mod packages;
mod mcp;
mod servers;

// before upstreams that others wrote
mod gateway;
mod grpc;

// before those who judge TLS
mod tls;

// with an ACME server that others wrote
mod acme;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;

use crate::places::find_on_path;
use crate::program::{self, Profile};
use crate::server::Server;
use crate::stop::{Stop, now};
use check::{Check, Outcome, Row, Scene};

/// Options of `cargo xtask interop`.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Options {
    /// More requests, more connections, for longer.
    #[arg(long)]
    full: bool,
    /// Clients and servers of MCP too, themselves and through bridges, which are installed from npm, `PyPI` and crates.io when they are not there.
    #[arg(long)]
    mcp: bool,
    /// Instead: `thruway serve` as a gateway, between clients and upstreams that others wrote.
    #[arg(long, conflicts_with = "mcp")]
    gateway: bool,
    /// Instead: certificates from Pebble, which Go builds.
    #[arg(long, conflicts_with_all = ["mcp", "gateway"])]
    acme: bool,
    /// Instead: clients and servers of gRPC, which Go and pip bring, through the gateway and with our engine as the server; `--gateway --full` has them too.
    #[arg(long, conflicts_with_all = ["mcp", "gateway", "acme"])]
    grpc: bool,
    /// Instead: what testssl.sh, sslyze (which is installed from `PyPI`) and tlsfuzzer find in TLS as it is spoken with clients.
    #[arg(long, conflicts_with_all = ["mcp", "gateway", "acme", "grpc"])]
    tls: bool,
    /// A checkout of tlsfuzzer, for `--tls`
    #[arg(long, value_name = "DIR", requires = "tls")]
    tlsfuzzer: Option<PathBuf>,
    /// A program `thruway`, instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How `thruway` is built for it.
    #[arg(long, value_enum, default_value_t = Profile::Dev)]
    profile: Profile,
}

/// Builds the server, runs every check that there is a client for, and prints a table.
///
/// # Errors
/// A check failed, or a server did not start or did not end as it should.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = match &options.program {
        Some(program) => program.canonicalize()?,
        None => program::build(options.profile, &Stop::new(program::BUILD_LIMIT)?)?,
    };
    let directory = tempfile::Builder::new().prefix("thruway-interop-").tempdir()?;
    fs::write(directory.path().join("content"), content())?;
    fs::write(directory.path().join("config.toml"), CONFIG)?;
    let stop = Stop::new(limit(options))?;
    let (directory, is_full) = (directory.path(), options.full);
    let rows = if options.acme {
        acme::run(&acme::Setting { program: &program, directory, stop: &stop })?
    } else if options.gateway {
        gateway::run(&gateway::Setting { program: &program, directory, is_full, stop: &stop })?
    } else if options.grpc {
        grpc::run(&grpc::Setting { program: &program, directory, stop: &stop })?
    } else if options.tls {
        let tlsfuzzer = options.tlsfuzzer.as_deref();
        tls::run(&tls::Setting { program: &program, directory, is_full, tlsfuzzer, stop: &stop })?
    } else {
        run_all(&program, directory, options, &stop)?
    };
    print(&rows);
    let failed = rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed(_))).count();
    ensure!(failed == 0, "{failed} checks failed");
    Ok(())
}

fn limit(options: &Options) -> Duration {
    match (options.tls, options.full || options.mcp || options.grpc || options.acme) {
        (true, _) => TLS_LIMIT,
        (false, true) => FULL_LIMIT,
        (false, false) => QUICK_LIMIT,
    }
}

fn run_all(program: &Path, directory: &Path, options: &Options, stop: &Stop) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let config = directory.join("config.toml");
    let config = config.to_string_lossy();
    let demo = program.to_string_lossy();
    let bridge = ["mcp", "bridge", "--listen", "127.0.0.1:0"];
    let [to_modern, to_legacy] = ["modern", "legacy"]
        .map(|era| [&bridge[..], &["--era", era, "--", &demo, "mcp", "serve", "--stdio"]].concat());
    let only_mcp = |checks: &[&'static Check]| if options.mcp { checks.to_vec() } else { Vec::new() };
    let servers: [(&str, &[&str], Vec<&Check>); 4] = [
        (
            "with the demo",
            &["serve", "--listen", "127.0.0.1:0"],
            [curl::CHECKS, load::CHECKS, scripts::CHECKS, &only_mcp(mcp::CHECKS), &only_mcp(servers::CHECKS)]
                .concat(),
        ),
        ("with a config", &["serve", &config], [curl::FILE_CHECKS, slow::CHECKS].concat()),
        ("as a bridge to the modern era", &to_modern, only_mcp(mcp::CHECKS)),
        ("as a bridge to the legacy era", &to_legacy, only_mcp(mcp::CHECKS)),
    ];
    for (name, arguments, checks) in servers.into_iter().filter(|(_, _, checks)| !checks.is_empty()) {
        let server = Server::start(program, arguments, &directory.join("server.log"), stop)?;
        let scene =
            Scene { url: server.url(), server: server.id(), program, directory, is_full: options.full, stop };
        for check in checks {
            rows.push(run_one(check, &scene));
            stop.check()?;
        }
        rows.push(check::row("thruway", name, || server.end(stop)));
    }
    Ok(rows)
}

fn run_one(check: &Check, scene: &Scene<'_>) -> Row {
    if find_on_path(check.client).is_none() {
        return Row::not_installed(check.client, check.what);
    }
    eprintln!("{}: {}", check.client, check.what);
    check::row(check.client, check.what, || (check.run)(scene))
}

fn print(rows: &[Row]) {
    for row in rows {
        println!("{row}");
    }
    let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
    println!(
        "\n{} passed, {} failed, {} not installed",
        count(|outcome| matches!(outcome, Outcome::Passed(_))),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::NotInstalled)),
    );
}

/// What is uploaded and downloaded: long enough for several reads, and no two lines alike.
fn content() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("line {n:09}\n").into_bytes()).collect()
}

/// Timeouts so short that attacks which live on patience are over soon, and a directory of files.
const CONFIG: &str = r#"
[[listeners]]
address = "127.0.0.1:0"

[[routes]]
path = "/files"
files = { root = "." }

[[routes]]
path = "/"
demo = true

[timeouts]
header_section = "2s"
content = "2s"
write_stall = "2s"
"#;

const QUICK_LIMIT: Duration = Duration::from_mins(3);
/// Clients of MCP may have to be installed and built.
const FULL_LIMIT: Duration = Duration::from_mins(20);
/// Judges try a hundred things, each with a handshake or more, and wait for what must not come.
const TLS_LIMIT: Duration = Duration::from_mins(40);
