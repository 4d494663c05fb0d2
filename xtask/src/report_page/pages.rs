//! The pages: one of a load, one of loads that are compared, one of a load that failed, and one of the suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::child;
use crate::program::{self, Profile};
use crate::server::Server;
use crate::stop::Stop;

/// A page, and the number of its plots.
pub(super) struct Page {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    /// Number of its plots.
    pub(super) plots: usize,
}

/// Writes all pages.
pub(super) fn write(program: &Path, directory: &Path, stop: &Stop) -> anyhow::Result<Vec<Page>> {
    let log = directory.join("server.log");
    let server = Server::start(program, &["serve", "--listen", "127.0.0.1:0", "--workers", "1"], &log, stop)?;
    let url = |path: &str| format!("{}{path}", server.url());
    let (plaintext, json, download, missing) =
        (url("/plaintext"), url("/json"), url("/download?bytes=20000"), url("/missing"));
    let loads: [(&str, &[&str], usize); 3] = [
        ("load", &["http", &plaintext, "-d", "1s"], 3),
        ("comparison", &["compare", &plaintext, &json, &download, "-d", "200ms"], 2 + 3 * 2),
        ("failures", &["http", &missing, "-d", "300ms", "--rate", "300"], 1),
    ];
    let mut pages = Vec::new();
    for (name, arguments, plots) in loads {
        let path = directory.join(name).with_extension("html");
        let mut command = Command::new(program);
        command.arg("bench").args(arguments).arg("--html").arg(&path);
        // A load that fails has a page too.
        child::any_output_of(command, LIMIT, stop)?;
        pages.push(Page { name, path, plots });
    }
    server.end(stop)?;
    pages.push(of_suite(program, directory, stop)?);
    Ok(pages)
}

/// Returns the page of a short run of the suite: messages of MCP over pipes and over HTTP, without peers.
/// Plots of ratios take six rounds.
fn of_suite(program: &Path, directory: &Path, stop: &Stop) -> anyhow::Result<Page> {
    let reports = directory.join("suite");
    let mut command = Command::new(program::build_package("thruway-suite", Profile::Dev, stop)?);
    command.args(["mcp-stdio", "--rounds", "6", "--duration", "200ms", "--limit", "25s", "--peers", "none"]);
    command.arg("--program").arg(program).arg("--report").arg(&reports);
    child::any_output_of(command, SUITE_LIMIT, stop)?;
    let path = reports.join("report.html");
    let plots = fs::read_to_string(&path)?.matches("<svg ").count();
    ensure!(plots > 0, "the page of the suite has no plot");
    Ok(Page { name: "suite", path, plots })
}

const LIMIT: Duration = Duration::from_secs(30);

/// The suite ends after 25 seconds of loads; starting servers comes on top.
const SUITE_LIMIT: Duration = Duration::from_mins(2);
