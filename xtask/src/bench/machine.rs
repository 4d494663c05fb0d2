//! The machine and the state of the repository, for the report; and the one limit that must be raised.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::versions;
use crate::places::repository;
use crate::process::CpuSource;
use crate::stop::Stop;

/// Where and on what it was measured.
#[derive(Serialize)]
pub(super) struct Machine {
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) memory: String,
    pub(super) descriptors: Option<u64>,
    pub(super) rustc: String,
    pub(super) wrk: String,
    pub(super) cpu_time_source: &'static str,
}

/// Raises the limit of open descriptors as far as it may be: servers and load generators inherit it.
///
/// # Errors
/// When the operating system refuses.
pub(super) fn raise_descriptor_limit() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("cannot raise the limit of open descriptors")
}

/// Describes this machine; what it does not tell is `unknown`.
pub(super) fn describe(stop: &Stop) -> Machine {
    let unknown = || "unknown".to_owned();
    let first =
        |program: &str, argument: &str| versions::printed(program, argument, stop).unwrap_or_else(unknown);
    Machine {
        date: first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
        commit: commit(&repository()),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_or_else(|_| unknown(), |s| s.trim().to_owned()),
        cpu: value_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory: memory().unwrap_or_else(unknown),
        descriptors: getrlimit(Resource::Nofile).current,
        rustc: first("rustc", "--version"),
        wrk: first("wrk", "-v"),
        cpu_time_source: CpuSource::detect().describe(),
    }
}

fn memory() -> Option<String> {
    let kibibytes: u64 = value_of("/proc/meminfo", "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{} GiB", kibibytes >> 20))
}

/// The commit that is checked out, and whether the files differ from it.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| first_line(Command::new("git").current_dir(root).args(arguments));
    let hash = git(&["rev-parse", "--short=12", "HEAD"]);
    if git(&["status", "--porcelain"]).is_empty() { hash } else { format!("{hash} with changes") }
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().trim().to_owned()
}

/// The value of the first line `name : value` of a file of `/proc`.
fn value_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}
