//! Builds or finds the programs; what is missing is said in the report and is no error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::peers::{self, Build, Peer};
use super::{debian, packages, versions};
use crate::program::{self, Profile};
use crate::stop::Stop;
use crate::{child, places};

/// A fat link of a large peer takes a minute; all of them share nothing at first.
const BUILD_LIMIT: Duration = Duration::from_mins(15);

/// Programs without which nothing can be measured.
const TOOLS: &[&str] = &["setpriv", "taskset", "wrk"];

/// A server that can be started.
pub(super) struct Prepared {
    pub(super) peer: &'static Peer,
    pub(super) program: PathBuf,
    /// The program as the report names it: relative to the repository, or found on `PATH`.
    pub(super) shown_program: String,
    pub(super) version: String,
    /// Where configurations and other files of the peers lie.
    pub(super) bench_directory: PathBuf,
}

/// What can be measured, and what cannot.
pub(super) struct Ready {
    pub(super) servers: Vec<Prepared>,
    /// Name and reason of each peer that is missing.
    pub(super) missing: Vec<(&'static str, String)>,
    /// What is measured as ours wherever it is not said by the workload.
    pub(super) ours: Option<&'static str>,
}

impl Ready {
    /// The server of this name, if it is there.
    pub(super) fn find(&self, name: &str) -> Option<&Prepared> {
        self.servers.iter().find(|prepared| prepared.peer.name == name)
    }
}

/// Builds or finds all of `wanted`, and `ours` when it is the path of a program.
///
/// # Errors
/// When a load generator is missing, or it is time to end.
pub(super) fn all(wanted: &[&'static Peer], ours: Option<&str>, stop: &Stop) -> anyhow::Result<Ready> {
    for tool in TOOLS {
        if places::find_on_path(tool).is_none() {
            bail!("`{tool}` is not on the path\n\nhint: on Debian: apt-get install util-linux wrk");
        }
    }
    let root = places::repository();
    let mut ready = Ready { servers: Vec::new(), missing: Vec::new(), ours: None };
    if let Some(ours) = ours {
        ready.ours = Some(match peers::find(ours) {
            Some(peer) => peer.name,
            None => given(Path::new(ours), &root, &mut ready.servers)?,
        });
    }
    for peer in wanted {
        if ready.find(peer.name).is_some() {
            continue;
        }
        eprintln!("preparing {}", peer.name);
        match prepare(peer, &root, stop) {
            Ok(prepared) => ready.servers.push(prepared),
            Err(error) => {
                stop.check()?;
                eprintln!("{} is left out: {error:#}", peer.name);
                ready.missing.push((peer.name, format!("{error:#}")));
            }
        }
    }
    Ok(ready)
}

/// Takes a program from a path in the place of `thruway`.
fn given(program: &Path, root: &Path, servers: &mut Vec<Prepared>) -> anyhow::Result<&'static str> {
    let peer = peers::find("thruway").context("the table of peers has a row for ours")?;
    if !program.is_file() {
        bail!("`{}` is neither a peer nor a program", program.display());
    }
    servers.push(Prepared {
        peer,
        program: program.canonicalize()?,
        shown_program: shown(program, root),
        version: "given on the command line".to_owned(),
        bench_directory: root.join("peers"),
    });
    Ok(peer.name)
}

fn prepare(peer: &'static Peer, root: &Path, stop: &Stop) -> anyhow::Result<Prepared> {
    let bench = root.join("peers");
    let program = match peer.build {
        Build::Root => program::build(Profile::Dist, stop)?,
        Build::Bench(package) => cargo_build(&bench, package, stop)?,
        Build::Go(command) => go_build(&bench, command, stop)?,
        Build::Node(folder) => packages::node(&bench, folder, stop)?,
        Build::Debian(package) => debian::newest(&bench, package, stop)?,
        Build::Python(folder) => packages::python(&bench, folder, stop)?,
    };
    let shown_program = shown(&program, root);
    let version = versions::of_peer(peer, &program, &bench, stop);
    Ok(Prepared { peer, program, shown_program, version, bench_directory: bench })
}

/// A program of the repository by its place there, another by its name.
fn shown(program: &Path, root: &Path) -> String {
    match (program.strip_prefix(root), program.file_name()) {
        (Ok(relative), _) => relative.display().to_string(),
        (Err(_), Some(name)) => name.to_string_lossy().into_owned(),
        (Err(_), None) => String::new(),
    }
}

/// Builds a peer. The profile `release` of the workspace `bench` has the settings of our profile `dist`.
fn cargo_build(workspace: &Path, package: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    let target = workspace.join("target");
    let mut command = Command::new("cargo");
    command
        .current_dir(workspace)
        .args(["build", "--release", "--package", package, "--target-dir"])
        .arg(&target);
    child::output_of(&format!("cargo build --release --package {package}"), command, BUILD_LIMIT, stop)?;
    built(target.join("release").join(package))
}

fn go_build(bench: &Path, name: &str, stop: &Stop) -> anyhow::Result<PathBuf> {
    places::find_on_path("go").context("`go` is not on the path")?;
    let program = bench.join("target/go").join(name);
    let mut command = Command::new("go");
    command
        .current_dir(bench.join("go"))
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(format!("./{name}"));
    child::output_of(&format!("go build ./{name}"), command, BUILD_LIMIT, stop)?;
    built(program)
}

fn built(program: PathBuf) -> anyhow::Result<PathBuf> {
    if !program.is_file() {
        bail!("the build left no `{}`", program.display());
    }
    Ok(program)
}
