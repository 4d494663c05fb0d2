//! Packages that are installed below `target/` when they are needed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::child;
use crate::places::repository;
use crate::program::BUILD_LIMIT;
use crate::stop::Stop;

/// What stands behind and before gateways, from `PyPI`.
pub(super) const GATEWAY: &[&str] =
    &["uvicorn==0.38.0", "h11==0.16.0", "httptools==0.7.1", "requests==2.32.5", "websockets==15.0.1"];

/// A client and a server of gRPC, from `PyPI`.
pub(super) const GRPC: &[&str] = &["grpcio==1.85.1"];

/// A judge of TLS, from `PyPI`.
pub(super) const SSLYZE: &[&str] = &["sslyze==6.3.1"];

/// What a checkout of tlsfuzzer stands on, from `PyPI`.
pub(super) const TLSFUZZER: &[&str] = &["tlslite-ng==0.9.0b2", "ecdsa==0.19.2"];

/// The interpreter of an environment that has `packages`.
///
/// # Errors
/// When they cannot be installed.
pub(super) fn python(name: &str, packages: &[&str], stop: &Stop) -> anyhow::Result<PathBuf> {
    let environment = installed(name)?;
    let interpreter = environment.join("bin/python");
    if !environment.join(COMPLETE).exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&environment);
        child::output_of("python3 -m venv", venv, INSTALL_LIMIT, stop)?;
        let mut pip = Command::new(&interpreter);
        pip.args(["-m", "pip", "install", "--quiet"]).args(packages);
        child::output_of("pip install", pip, INSTALL_LIMIT, stop)?;
        fs::write(environment.join(COMPLETE), "")?;
    }
    Ok(interpreter)
}

/// Where the packages from npm of this name are.
///
/// # Errors
/// When they cannot be installed.
pub(super) fn node(name: &str, packages: &[&str], stop: &Stop) -> anyhow::Result<PathBuf> {
    let directory = installed(name)?;
    if !directory.join(COMPLETE).exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&directory).args(packages);
        child::output_of("npm install", npm, INSTALL_LIMIT, stop)?;
        fs::write(directory.join(COMPLETE), "")?;
    }
    Ok(directory)
}

/// Where the programs of rmcp are, a client and a server: a workspace of their own, which nothing else compiles.
///
/// # Errors
/// When they cannot be built.
pub(super) fn rmcp(stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = installed("rmcp")?;
    let mut build = Command::new("cargo");
    build.current_dir(repository().join(RMCP)).args(["build", "--locked", "--target-dir"]).arg(&target);
    child::output_of("cargo build", build, BUILD_LIMIT, stop)?;
    Ok(target.join("debug"))
}

/// Where the servers in Go are.
///
/// # Errors
/// When they cannot be built.
pub(super) fn go(stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = installed("go")?;
    let mut build = Command::new("go");
    build.current_dir(repository().join(GO)).args(["build", "-o"]).arg(&target).arg("./...");
    child::output_of("go build", build, BUILD_LIMIT, stop)?;
    Ok(target)
}

/// The directory of this name below `target/`, which is there afterwards.
///
/// # Errors
/// When it cannot be made.
pub(super) fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let directory = repository().join("target/interop").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    Ok(directory)
}

const RMCP: &str = "xtask/src/interop/clients/mcp/rmcp";
const GO: &str = "xtask/src/interop/servers/go";

/// Stands where everything was installed.
const COMPLETE: &str = "complete";

const INSTALL_LIMIT: Duration = Duration::from_mins(5);
