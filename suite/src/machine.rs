//! A description of this machine.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::results::{Environment, Tool};

use crate::cores::Cores;
use crate::found::Found;
use crate::process::{descriptor_limit, first_line};

/// Describes the machine and the software.
pub(crate) fn describe(ours: &Found, cores: &Cores, tools: Vec<Tool>) -> Environment {
    let unknown = || "unknown".to_owned();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
    Environment {
        date: first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])).unwrap_or_else(unknown),
        version: version(ours),
        is_debug_build: cfg!(debug_assertions),
        cpu: value_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cores: cores.count as u64,
        placement: cores.describe().to_owned(),
        kernel: kernel.map_or_else(|_| unknown(), |kernel| kernel.trim().to_owned()),
        memory: memory().unwrap_or(0),
        descriptors: descriptor_limit(),
        tools,
    }
}

/// Returns the version of the measured program, with the commit if the program is in a repository.
fn version(ours: &Found) -> String {
    let generator = format!("thruway {}", env!("CARGO_PKG_VERSION"));
    let commit = ours.program.parent().and_then(commit);
    let commit = commit.map_or_else(String::new, |commit| format!(", in a repository at {commit}"));
    let loader = if ours.version == generator { String::new() } else { format!(", loaded by {generator}") };
    format!("{}{commit}{loader}", ours.version)
}

/// Returns the commit of the repository that contains `directory`, with `-dirty` if there are local changes.
fn commit(directory: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory).args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    first_line(&mut git).filter(|line| !line.starts_with("fatal: "))
}

fn memory() -> Option<u64> {
    let kibibytes: u64 = value_of("/proc/meminfo", "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the value of the first line `name : value` in a file in `/proc`.
fn value_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_properties_are_read() {
        assert!(memory().unwrap() > 1 << 20);
        assert_eq!(value_of("/proc/meminfo", "NoSuchLine"), None);
        assert_eq!(commit(Path::new("/proc")), None);
    }
}
