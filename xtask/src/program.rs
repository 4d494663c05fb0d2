//! The repository, the programs of this machine, and the program under test, built from the repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::stop::Stop;

/// The repository that this program was built from.
pub(crate) fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// The program of this name, if it is installed.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// The cargo profile that `thruway` is built with.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Quick to build, and arithmetic is checked for overflow.
    Dev,
    /// Optimized crate by crate.
    Release,
    /// Optimized as a whole, as published binaries are. All figures come from it.
    Dist,
}

impl Profile {
    /// The name in `Cargo.toml`, and that of its folder in the target directory.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Dev => ("dev", "debug"),
            Self::Release => ("release", "release"),
            Self::Dist => ("dist", "dist"),
        }
    }
}

/// Builds `thruway`.
pub(crate) fn build(profile: Profile, stop: &Stop) -> anyhow::Result<PathBuf> {
    build_package("thruway", profile, stop)
}

/// Builds a package of the workspace, and returns its program, which has the same name.
pub(crate) fn build_package(package: &str, profile: Profile, stop: &Stop) -> anyhow::Result<PathBuf> {
    let root = repository();
    let target = root.join("target");
    let (name, folder) = profile.names();
    let mut command = Command::new("cargo");
    command.current_dir(&root).args(["build", "--package", package, "--profile", name, "--target-dir"]);
    command.arg(&target);
    eprintln!("building `{package}`, profile `{name}`");
    let shown = format!("cargo build --package {package} --profile {name}");
    child::output_of(&shown, command, BUILD_LIMIT, stop)?;
    Ok(target.join(folder).join(package))
}

/// Limit for a build from an empty target directory. With fat LTO it takes a quarter of an hour of CPU time.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_mins(30);
