//! `cargo xtask report-page`: the pages of `thruway bench`, opened in a browser.
//!
//! Each page is as wide as a phone and as a window, in light and in dark: nothing is beyond the edge, the
//! browser draws every plot, and the console is silent. Screenshots are for reviewers, because no check
//! covers everything.

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

/// Writes the pages, opens them, and checks their appearance.
///
/// # Errors
/// Returns an error if a check of a page fails, or if a program fails.
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
            println!("{name}: {plots} plots drawn, nothing beyond the edge, nothing in the console");
        }
    }
    println!("screenshots are in target/report-page");
    Ok(())
}

/// A page, and the number of its plots.
type Page = (PathBuf, usize);

/// Writes the pages of a load, of loads that are compared, and of a load that failed.
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
        // A load that fails has a page too.
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
