//! Downloads the newest Debian packages of some peers and unpacks them in `peers/target`, without installing
//! them. The programs start with the unpacked libraries.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::process::{Runner, on_path};

/// Creates a launcher for the program of a package. The program and the package have the same name. Keeps an
/// existing launcher.
pub(crate) fn newest(peers: &Path, name: &str, runner: Runner<'_>) -> anyhow::Result<()> {
    let directory = peers.join("target/debian").join(name);
    let launcher = directory.join(name);
    if launcher.is_file() {
        return Ok(());
    }
    ensure!(Path::new(KEYS).is_file(), "`{KEYS}` is missing");
    let archives = downloaded(&directory, name, runner)?;
    let root = directory.join("root");
    for archive in archives {
        let mut unpack = Command::new(on_path("dpkg-deb")?);
        runner.run(unpack.arg("--extract").args([&archive, &root]), UNPACK_LIMIT)?;
    }
    launch(&launcher, &root, name)
}

/// Downloads a package with all its dependencies, including dependencies that are installed on this machine.
fn downloaded(directory: &Path, name: &str, runner: Runner<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let archives = directory.join("cache/archives");
    fs::create_dir_all(directory.join("state/lists/partial"))?;
    fs::create_dir_all(archives.join("partial"))?;
    fs::write(directory.join("status"), "")?;
    let sources = [NEWEST, "unstable"].map(|suite| format!("deb [signed-by={KEYS}] {MIRROR} {suite} main\n"));
    fs::write(directory.join("sources.list"), sources.concat())?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new(on_path("apt-get")?);
        runner.run(command.args(options(directory)).args(arguments), DOWNLOAD_LIMIT)
    };
    apt(&["update"])?;
    apt(&["install", "--yes", "--download-only", "--target-release", NEWEST, name])?;
    let entries = fs::read_dir(&archives)?.collect::<Result<Vec<_>, _>>()?;
    let files = entries.into_iter().map(|entry| entry.path());
    Ok(files.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect())
}

/// Returns options for apt. With these options, apt ignores the sources and packages of this machine, and
/// writes only to `directory`. Settings in `/etc/apt/apt.conf.d`, such as proxies, still apply.
fn options(directory: &Path) -> Vec<String> {
    let option_for =
        |option: &str, path: &str| format!("--option={option}={}", directory.join(path).display());
    let paths = [
        ("Dir::State", "state"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "cache"),
        ("Dir::Etc::SourceList", "sources.list"),
        ("Dir::Etc::SourceParts", "none"),
        ("Dir::Etc::Preferences", "none"),
        ("Dir::Etc::PreferencesParts", "none"),
    ];
    let fixed_options = ["--option=Acquire::Languages=none", "--no-install-recommends"].map(str::to_owned);
    paths.map(|(option, path)| option_for(option, path)).into_iter().chain(fixed_options).collect()
}

/// Writes a script that starts the unpacked program with its own dynamic loader and libraries.
fn launch(launcher: &Path, root: &Path, name: &str) -> anyhow::Result<()> {
    let program = root.join("usr/sbin").join(name);
    let loader = loader(root).context("the packages contain no dynamic loader")?;
    let libraries = loader.parent().context("the dynamic loader has no parent directory")?;
    let line = format!(
        "#!/bin/sh\nexec '{}' --library-path '{}' '{}' \"$@\"\n",
        loader.display(),
        libraries.display(),
        program.display()
    );
    fs::write(launcher, line)?;
    fs::set_permissions(launcher, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Returns the path of the dynamic loader, which is in the library folder of its architecture.
fn loader(root: &Path) -> Option<PathBuf> {
    let libraries = fs::read_dir(root.join("usr/lib")).ok()?.flatten();
    let files = libraries.filter_map(|directory| fs::read_dir(directory.path()).ok()).flatten().flatten();
    let is_loader = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with("ld-linux"));
    files.filter(|file| is_loader(&file.file_name())).map(|file| file.path()).next()
}

const MIRROR: &str = "http://deb.debian.org/debian";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The Debian distribution with the newest packages. It has few packages, so apt takes the others from
/// `unstable`.
const NEWEST: &str = "experimental";

const DOWNLOAD_LIMIT: Duration = Duration::from_mins(3);
const UNPACK_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_starts_the_program_with_its_own_loader() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        let libraries = root.join("usr/lib/any-linux-gnu");
        fs::create_dir_all(&libraries).unwrap();
        // A fake loader that prints its arguments.
        fs::write(libraries.join("ld-linux-any.so.2"), "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        fs::set_permissions(libraries.join("ld-linux-any.so.2"), fs::Permissions::from_mode(0o755)).unwrap();
        let launcher = directory.path().join("haproxy");
        launch(&launcher, &root, "haproxy").unwrap();
        let printed = Command::new(&launcher).args(["-f", "a b"]).output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let program = root.join("usr/sbin/haproxy");
        let expected =
            ["--library-path", libraries.to_str().unwrap(), program.to_str().unwrap(), "-f", "a b"];
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
        assert!(launch(&launcher, &root.join("without-a-loader"), "haproxy").is_err());
    }
}
