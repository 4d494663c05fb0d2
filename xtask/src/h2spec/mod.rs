//! `cargo xtask h2spec`: the conformance tests of HTTP/2 (`summerwind/h2spec`), against the server and through the gateway.
//!
//! They are not part of this repository: Go builds them, at the versions that `go.mod` and `go.sum` beside this file name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use thruway_server::{ListenAddr, Listener, OwnedRequest, Response};

use crate::child;
use crate::places::{find_on_path, repository};
use crate::program::{self, Profile};
use crate::server::Server;
use crate::stop::Stop;

/// Options of `cargo xtask h2spec`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A program `h2spec`, instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Builds server and tests, and runs them.
///
/// # Errors
/// A test failed or was left out, or something could not be run.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(LIMIT)?;
    let tests = match &options.program {
        Some(program) => program.clone(),
        None => build_tests(&stop)?,
    };
    let thruway = program::build(Profile::Dev, &stop)?;
    let directory = tempfile::Builder::new().prefix("thruway-h2spec-").tempdir()?;
    let address: ListenAddr = "127.0.0.1:0".parse()?;
    let origin = thruway_server::Server::new(answer)
        .workers(1)
        .listen_on(Listener::new(address.clone()))
        .listen_on(Listener::new(address).http2_only())
        .start()?;
    let [http1, http2] = origin.addresses() else { bail!("there should be two listeners") };
    let file = directory.path().join("gateway.toml");
    fs::write(&file, GATEWAY.replace("{origin}", &http1.to_string()))?;
    let path = file.to_str().context("a path that is no text")?;
    let gateway = Server::start(&thruway, &["serve", path], &file.with_extension("log"), &stop)?;
    let outcomes = [("server", http2.to_string()), ("gateway", gateway.url())]
        .map(|(name, address)| (name, run_tests(&tests, &address, &stop).context(name)));
    gateway.end(&stop)?;
    origin.drain();
    origin.join();
    for (name, outcome) in outcomes {
        println!("{name:8} {}", outcome?);
    }
    Ok(())
}

/// Answers when the content is there: who answered before would race with what the tests say last, which is what they are about.
async fn answer(mut request: OwnedRequest) -> Response {
    match request.content().collect(CONTENT_BYTES).await {
        Ok(_) => Response::text("as it should be\n".repeat(10)),
        Err(error) => Response::text(error.to_string()).with_status(error.status()),
    }
}

/// Nothing is spoken but HTTP/2: elsewhere, what is no preface is answered as HTTP/1.1, which the tests do not expect.
const GATEWAY: &str = r#"
[[listeners]]
address = "127.0.0.1:0"
http2 = "only"

[[routes]]
path = "/"
upstream = "origin"

[upstreams.origin]
servers = ["{origin}"]
"#;

/// Runs all tests. What they say of themselves at their end.
fn run_tests(tests: &Path, address: &str, stop: &Stop) -> anyhow::Result<String> {
    let port = address.rsplit(':').next().unwrap_or_default();
    let mut command = Command::new(tests);
    command.args(["--host", "127.0.0.1", "--port", port]);
    let printed = child::any_output_of(command, RUN_LIMIT, stop)?;
    let sum = printed.lines().rev().find(|line| line.contains(" tests, ")).context("there is no result")?;
    let expected = format!("{TESTS} tests, {TESTS} passed, 0 skipped, 0 failed");
    let failures = printed.split("Failures:").nth(1).unwrap_or_default().trim();
    ensure!(sum == expected, "{sum}\n{failures}");
    Ok(sum.to_owned())
}

fn build_tests(stop: &Stop) -> anyhow::Result<PathBuf> {
    find_on_path("go").context("`go` is not on the path")?;
    let root = repository();
    let program = root.join("target/h2spec");
    let mut command = Command::new("go");
    command
        .current_dir(root.join("xtask/src/h2spec"))
        .args(["build", "-trimpath", "-mod=readonly", "-o"])
        .arg(&program)
        .arg("github.com/summerwind/h2spec/cmd/h2spec");
    eprintln!("building `h2spec`");
    child::output_of("go build h2spec", command, BUILD_LIMIT, stop)?;
    Ok(program)
}

/// More than any test sends.
const CONTENT_BYTES: usize = 1 << 20;

/// How many tests there are.
const TESTS: usize = 145;

const LIMIT: Duration = Duration::from_mins(20);
const BUILD_LIMIT: Duration = Duration::from_mins(15);
const RUN_LIMIT: Duration = Duration::from_mins(5);
