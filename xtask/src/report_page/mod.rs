//! `cargo xtask report-page`: checks the HTML reports of `thruway bench` in Chromium.
//!
//! The task opens each report with the width of a phone and of a desktop window, in light and dark mode. No
//! element may extend beyond the right edge, the browser must draw every plot, and its console must stay
//! empty. Screenshots let reviewers see faults that these checks miss.

// the browser and the checks
mod chromium;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::child;
use crate::program::{self, Profile, repository};
use crate::server::Server;
use crate::stop::Stop;

/// Writes the reports, opens them, and checks their layout.
///
/// # Errors
/// A check or a program failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let stop = Stop::new(LIMIT)?;
    let programs = program::build(&["thruway"], Profile::Dev, &stop)?;
    let directory = repository().join("target/report-page");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    for (path, plots) in pages_of_loads(&programs.join("thruway"), &directory, &stop)? {
        for is_dark in [false, true] {
            let name = path.with_extension(if is_dark { "dark" } else { "light" });
            let frames = chromium::open(&path, is_dark, &name, &stop)?;
            chromium::check(&frames, plots, is_dark).with_context(|| name.display().to_string())?;
            let name = name.file_name().unwrap_or_default().display();
            println!("{name}: {plots} plots drawn, no element beyond the right edge, console empty");
        }
    }
    println!("screenshots are in target/report-page");
    Ok(())
}

/// A report, and the number of its plots.
type Page = (PathBuf, usize);

/// Writes the reports of one load, of several loads that are compared, and of a load that failed.
fn pages_of_loads(program: &Path, directory: &Path, stop: &Stop) -> anyhow::Result<Vec<Page>> {
    let mut serve = Command::new(program);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--workers", "1"]);
    let server = Server::start(serve, &directory.join("server.log"), stop)?;
    let mut pages = Vec::new();
    for (name, words, plots) in [
        ("load", "http URL/plaintext -d 1s", 3),
        ("comparison", "compare URL/plaintext URL/json URL/download?bytes=20000 -d 200ms", 2 + 3 * 2),
        ("failures", "http URL/missing -d 300ms --rate 300", 1),
    ] {
        let path = directory.join(name).with_extension("html");
        let mut command = Command::new(program);
        command.arg("bench").args(words.replace("URL", &server.url()).split(' ')).arg("--html").arg(&path);
        // Ignores the exit status, because the failed load also writes a report.
        child::any_output_of(command, PAGE_LIMIT, stop)?;
        pages.push((path, plots));
    }
    server.end(stop)?;
    Ok(pages)
}

/// Time limit of the task, including the build of the program.
const LIMIT: Duration = Duration::from_mins(20);

/// Time limit of one load.
const PAGE_LIMIT: Duration = Duration::from_mins(2);
