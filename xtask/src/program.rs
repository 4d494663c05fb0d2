//! The repository, the programs of this machine, and programs that are built from the repository.

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

/// The cargo profile of a build.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// Quick to build, and arithmetic is checked for overflow.
    Dev,
    /// Optimized as a whole, as published binaries are. All figures come from it.
    Dist,
}

/// Builds packages of the workspace, and returns the directory of their programs.
pub(crate) fn build(packages: &[&str], profile: Profile, stop: &Stop) -> anyhow::Result<PathBuf> {
    let root = repository();
    let target = root.join("target");
    let (name, folder) = match profile {
        Profile::Dev => ("dev", "debug"),
        Profile::Dist => ("dist", "dist"),
    };
    let mut command = Command::new("cargo");
    command.current_dir(&root).args(["build", "--profile", name, "--target-dir"]).arg(&target);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    let packages = packages.join(", ");
    eprintln!("building {packages}, profile `{name}`");
    child::output_of(&format!("cargo build of {packages}"), command, BUILD_LIMIT, stop)?;
    Ok(target.join(folder))
}

/// Builds `thruway` without optimization.
pub(crate) fn thruway(stop: &Stop) -> anyhow::Result<PathBuf> {
    Ok(build(&["thruway"], Profile::Dev, stop)?.join("thruway"))
}

/// Limit for a build from an empty target directory. With fat LTO it takes a quarter of an hour of CPU time.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_mins(30);
