//! Packages and programs of others that are installed or built below `target/` when they are needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use crate::child;
use crate::program::{BUILD_LIMIT, repository};
use crate::stop::Stop;

/// The lists in `packages.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    python: BTreeMap<String, Vec<String>>,
    npm: BTreeMap<String, Vec<String>>,
}

fn lists() -> anyhow::Result<Lists> {
    Ok(toml::from_str(include_str!("packages.toml"))?)
}

/// Returns the interpreter of an environment that has the packages of this name.
pub(super) fn python(name: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    let packages =
        lists()?.python.remove(name).with_context(|| format!("no list of packages is `{name}`"))?;
    let environment = installed(name)?;
    let interpreter = environment.join("bin/python");
    install_once(&environment, &packages, || {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(&environment);
        child::output_of("python3 -m venv", venv, INSTALL_LIMIT, stop)?;
        let mut pip = Command::new(&interpreter);
        pip.args(["-m", "pip", "install", "--quiet"]).args(&packages);
        child::output_of("pip install", pip, INSTALL_LIMIT, stop)
    })?;
    Ok(interpreter)
}

/// Returns the directory with the packages of this name from npm.
pub(super) fn npm(name: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    let mut packages =
        lists()?.npm.remove(name).with_context(|| format!("no list of packages is `{name}`"))?;
    if cfg!(target_arch = "aarch64") {
        packages = packages.iter().map(|package| package.replace("linux-x64", "linux-arm64")).collect();
    }
    let directory = installed(name)?;
    install_once(&directory, &packages, || {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&directory).args(&packages);
        child::output_of("npm install", npm, INSTALL_LIMIT, stop)
    })?;
    Ok(directory)
}

/// Installs unless these packages were installed: a list of them stands where everything is complete.
fn install_once(
    directory: &Path,
    packages: &[String],
    install: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let (complete, list) = (directory.join("complete"), packages.join("\n"));
    if fs::read_to_string(&complete).is_ok_and(|present| present == list) {
        return Ok(());
    }
    eprintln!("installing {}", packages.join(", "));
    install()?;
    Ok(fs::write(complete, list)?)
}

/// Returns the directory with the programs of rmcp, a client and a server: a workspace of their own, which
/// nothing else compiles.
pub(super) fn rmcp(stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = installed("rmcp")?;
    let mut build = Command::new("cargo");
    build.current_dir(repository().join(RMCP)).args(["build", "--locked", "--target-dir"]).arg(&target);
    child::output_of("cargo build", build, BUILD_LIMIT, stop)?;
    Ok(target.join("debug"))
}

/// Builds commands of a Go module, a folder of the repository, at the versions in its `go.mod` and `go.sum`;
/// returns their directory.
pub(super) fn go_module(folder: &str, name: &str, commands: &[&str], stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = installed(name)?;
    let mut build = Command::new("go");
    build.current_dir(repository().join(folder)).args(["build", "-trimpath", "-mod=readonly", "-o"]);
    // With a slash at its end, it is a directory.
    build.arg(target.join("")).args(commands);
    eprintln!("building `{name}`");
    child::output_of(&format!("go build {name}"), build, BUILD_LIMIT, stop)?;
    Ok(target)
}

/// Builds a program of one Go file into `directory`.
pub(super) fn go_file(source: &Path, directory: &Path, stop: &Stop) -> anyhow::Result<PathBuf> {
    let program = directory.join(source.file_stem().context("the source has no name")?);
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(source).current_dir(directory);
    build.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    child::output_of("go build", build, GO_BUILD_LIMIT, stop)?;
    Ok(program)
}

/// Returns the directory of this name below `target/`, which is there afterwards.
fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let directory = repository().join("target/interop").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    Ok(directory)
}

const RMCP: &str = "peers/interop-rmcp";

const INSTALL_LIMIT: Duration = Duration::from_mins(5);
/// The first build compiles the standard library.
const GO_BUILD_LIMIT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_once_for_each_list() {
        let directory = tempfile::tempdir().unwrap();
        let mut installations = 0;
        let fails = || anyhow::bail!("no network");
        assert!(install_once(directory.path(), &["a".to_owned()], fails).is_err());
        for list in ["a", "a", "b", "b"] {
            install_once(directory.path(), &[list.to_owned()], || {
                installations += 1;
                Ok(String::new())
            })
            .unwrap();
        }
        assert_eq!(installations, 2);
    }

    #[test]
    fn the_lists_can_be_read() {
        let Lists { python, npm } = lists().unwrap();
        assert!(python.values().chain(npm.values()).all(|packages| !packages.is_empty()));
    }
}
