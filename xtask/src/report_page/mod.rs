//! `cargo xtask report-page`: the pages of `thruway bench`, opened in a browser.
//!
//! Each page is as wide as a phone and as a window, in light and in dark: nothing is beyond the edge, the
//! browser draws every plot, and the console is silent. Screenshots are for reviewers, because no check
//! covers everything.

// the pages
mod pages;

// the browser and the checks
mod chromium;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::program::{self, Profile, find_on_path, repository};
use crate::stop::Stop;
use chromium::Scheme;

/// Options of `cargo xtask report-page`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The `thruway` that writes the pages; built unless given.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Writes the pages, opens them, and checks what is seen. Without a browser, nothing is done.
///
/// # Errors
/// Something is not as it should be seen, or a program failed.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Some(browser) = find_on_path("chromium") else {
        println!("left out: `chromium` is not installed");
        return Ok(());
    };
    let stop = Stop::new(LIMIT)?;
    let program = match &options.program {
        Some(program) => fs::canonicalize(program)?,
        None => program::build(Profile::Dev, &stop)?,
    };
    let directory = repository().join("target/report-page");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    for page in pages::write(&program, &directory, &stop)? {
        for scheme in [Scheme::Light, Scheme::Dark] {
            let name = format!("{}-{}", page.name, scheme.name());
            let seen = chromium::open(&browser, &page, scheme, &directory, &stop)?;
            chromium::check(&seen, page.plots, scheme).with_context(|| name.clone())?;
            println!("{name}: {} plots drawn, nothing beyond the edge, nothing in the console", page.plots);
        }
    }
    println!("screenshots are in target/report-page");
    Ok(())
}

/// With the building of the program.
const LIMIT: Duration = Duration::from_mins(20);
