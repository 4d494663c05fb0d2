//! `cargo xtask dashboard`: checks the dashboard of the admin listener in Chromium.
//!
//! The task starts a gateway under load, with a failing server, a full queue, an MCP endpoint, TLS,
//! and another gateway of its fleet. The script
//! `check.mjs` opens all views, and writes screenshots for reviewers and for the guide.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::child::{self, Running};
use crate::program::{self, repository};
use crate::server::Server;
use crate::stop::Stop;
use crate::{packages, server};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also write the screenshots of the guide to this directory. The guide uses `docs/guide/images`.
    #[arg(long, value_name = "DIRECTORY")]
    screenshots: Option<PathBuf>,
}

/// Starts the gateway, and checks the dashboard.
///
/// # Errors
/// A check or a program failed.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(LIMIT)?;
    let program = program::thruway(&stop)?;
    let directory = repository().join("target/dashboard");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    let [failing, admin, store, peer, other_peer] = server::free_addresses()?;
    let redis = Server::redis(store, &directory, &stop)?;
    let healthy =
        Server::serve(&program, include_str!("healthy.toml"), &directory.join("healthy.toml"), &stop)?;
    let failing = include_str!("failing.toml").replace("ADDRESS", &failing.to_string());
    let failing = Server::serve(&program, &failing, &directory.join("failing.toml"), &stop)?;
    certificate(&directory, &stop)?;
    let config = include_str!("gateway.toml")
        .replace("HEALTHY", healthy.address())
        .replace("FAILING", failing.address())
        .replace("ADMIN", &admin.to_string());
    let shared = |config: &str, peer: SocketAddr| {
        let config = config.replace("PROGRAM", &program.display().to_string());
        config.replace("STORE", &store.to_string()).replace("PEER", &peer.to_string())
    };
    let other = shared(include_str!("replica.toml"), other_peer);
    let other = Server::serve(&program, &other, &directory.join("replica.toml"), &stop)?;
    let config = shared(&config, peer);
    let gateway = Server::serve(&program, &config, &directory.join("gateway.toml"), &stop)?;
    let url = gateway.url();
    let slow = format!("{url}/download?bytes=1000&delay=300");
    let loads = [
        start_load(&program, "http --rate 200 -c 4", &url, &directory.join("load.log"))?,
        start_load(&program, "http --rate 8 -c 7", &slow, &directory.join("slow-load.log"))?,
        start_load(&program, MCP_LOAD, &format!("{url}/dev"), &directory.join("mcp-load.log"))?,
    ];
    let other_load =
        start_load(&program, MCP_LOAD, &format!("{}/dev", other.url()), &directory.join("other-load.log"))?;
    call_tools(&program, &url, &stop)?;
    child::send_sighup(gateway.id());
    let mut check = Command::new(packages::node("dashboard", &stop)?);
    check
        .arg(repository().join("crates/daemon/tests/dashboard/check.mjs"))
        .arg(packages::npm("dashboard", &stop)?);
    check.arg(format!("http://{admin}")).arg(healthy.address()).arg(&directory);
    if let Some(screenshots) = &options.screenshots {
        fs::create_dir_all(screenshots)?;
        check.arg(screenshots);
    }
    let checked = child::output_of("check.mjs", check, CHECK_LIMIT, &stop);
    drop((loads, other_load));
    for server in [gateway, other, healthy, failing, redis] {
        server.end(&stop)?;
    }
    println!("{}screenshots are in target/dashboard", checked?);
    Ok(())
}

/// Starts a load that ends when the task ends.
fn start_load(program: &Path, words: &str, url: &str, log: &Path) -> anyhow::Result<Running> {
    let mut load = Command::new(program);
    load.arg("bench").args(words.split(' ')).args(["-d", "10m"]).arg(url);
    Running::start(load, log)
}

/// Calls a tool, and also calls it with wrong arguments.
fn call_tools(program: &Path, url: &str, stop: &Stop) -> anyhow::Result<()> {
    for words in ["one__add a=1 b=2", "one__echo text=hello", "one__add a=x"] {
        let mut call = Command::new(program);
        call.args(["mcp", "call", &format!("{url}/dev")]).args(words.split(' '));
        child::any_output_of(call, CHECK_LIMIT, stop)?;
    }
    Ok(())
}

/// Creates a self-signed certificate for `localhost` that expires soon.
fn certificate(directory: &Path, stop: &Stop) -> anyhow::Result<()> {
    let mut openssl = Command::new("openssl");
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 10 -subj /CN=localhost \
                 -addext subjectAltName=DNS:localhost -keyout";
    openssl.args(words.split(' ')).arg(directory.join("key.pem")).arg("-out").arg(directory.join("cert.pem"));
    child::output_of("openssl", openssl, CHECK_LIMIT, stop).map(drop)
}

/// Calls with sessions.
const MCP_LOAD: &str = "mcp --rate 20 -c 3 --era legacy --tool one__add --arguments {\"a\":1,\"b\":2}";

/// Time limit of the task, including the build of the program.
const LIMIT: Duration = Duration::from_mins(40);

const CHECK_LIMIT: Duration = Duration::from_mins(8);
