//! The program under test, built from this repository.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::places::repository;
use crate::stop::Stop;

/// How `thruway` is built.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Profile {
    /// As `cargo test` builds it: there soon, and with all checks of arithmetic.
    Dev,
    /// As users have it: what is measured.
    Release,
}

/// Builds `thruway`.
///
/// # Errors
/// It cannot be built.
pub(crate) fn build(profile: Profile, stop: &Stop) -> anyhow::Result<PathBuf> {
    let root = repository();
    let target = root.join("target");
    let mut command = Command::new("cargo");
    command.current_dir(&root).args(["build", "--package", "thruway", "--target-dir"]).arg(&target);
    let built = match profile {
        Profile::Dev => "debug/thruway",
        Profile::Release => {
            command.arg("--release");
            "release/thruway"
        }
    };
    eprintln!("building `thruway`");
    child::output_of("cargo build --package thruway", command, BUILD_LIMIT, stop)?;
    Ok(target.join(built))
}

/// All that is in it, from nothing.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_mins(15);
