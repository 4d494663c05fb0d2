//! Paths of the repository and of installed programs, and builds of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::stop::Stop;

/// Returns the path of the repository.
pub(crate) fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Returns the path of a program if it is on `PATH`.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// The cargo profile of a build.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// Builds fast, and checks arithmetic for overflow.
    Dev,
    /// Optimizes like the builds of published binaries. All measurements use this profile.
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

/// Time limit of a build from an empty target directory. With fat LTO it takes 15 minutes of CPU time.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_mins(30);
