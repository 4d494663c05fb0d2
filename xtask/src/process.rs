//! What a process and its descendants cost: CPU time and memory, read from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

/// Where CPU times come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuSource {
    /// `/proc/PID/task/*/schedstat`: nanoseconds on a core, of the threads that live.
    Schedstat,
    /// `/proc/PID/stat`: user and system time in clock ticks.
    Stat,
}

impl CpuSource {
    /// The finest that this kernel offers.
    pub(super) fn detect() -> Self {
        match schedstat_nanoseconds("/proc/self/schedstat") {
            Some(nanoseconds) if nanoseconds > 0 => Self::Schedstat,
            _ => Self::Stat,
        }
    }

    /// For the report.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Schedstat => "`/proc/PID/task/*/schedstat` (nanoseconds, all threads, children included)",
            Self::Stat => "`/proc/PID/stat` (clock ticks, user and system, children included)",
        }
    }

    /// CPU time of a process and its descendants so far.
    ///
    /// # Errors
    /// When the process is gone.
    pub(super) fn cpu_time(self, id: u32) -> anyhow::Result<Duration> {
        self.cpu_time_of(family(id).into_iter())
    }

    /// The same without those descendants that run `program`.
    ///
    /// # Errors
    /// When the process is gone.
    pub(super) fn cpu_time_without(self, id: u32, program: &Path) -> anyhow::Result<Duration> {
        let is_another =
            |id: &u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|path| path != program);
        self.cpu_time_of(family(id).into_iter().filter(is_another))
    }

    fn cpu_time_of(self, ids: impl Iterator<Item = u32>) -> anyhow::Result<Duration> {
        let times = ids.map(|id| match self {
            Self::Schedstat => schedstat_of_threads(id),
            Self::Stat => stat_time(id),
        });
        times.sum::<Option<Duration>>().context("the server is gone")
    }
}

/// CPU time of all children of this process that have ended and were waited for. The kernel adds nanoseconds up and tells
/// ticks, so that of many children the mean is known well.
///
/// # Errors
/// When the kernel does not say.
pub(super) fn cpu_time_of_ended_children() -> anyhow::Result<Duration> {
    let fields = stat_fields(std::process::id());
    let ticks = fields.as_ref().and_then(|fields| {
        let of = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(of(CHILDREN_USER_TIME)? + of(CHILDREN_SYSTEM_TIME)?)
    });
    ticks.map(from_ticks).context("`/proc/self/stat` has no times of children")
}

/// Reads how much anonymous memory, the heap and the stacks, a process and its descendants have now, in octets.
///
/// # Errors
/// When the process is gone, or the kernel does not say.
pub(super) fn anonymous_memory(id: u32) -> anyhow::Result<u64> {
    family(id).into_iter().map(|id| kibibytes(&format!("/proc/{id}/smaps_rollup"), "Pss_Anon:")).sum()
}

/// A process and all its descendants.
pub(super) fn family(id: u32) -> Vec<u32> {
    let parents = parents();
    let mut family = vec![id];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|&(_, &of)| of == parent).map(|(&child, _)| child));
        next += 1;
    }
    family
}

/// The parent of every process.
fn parents() -> HashMap<u32, u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, stat_fields(id)?.get(PARENT)?.parse().ok()?))).collect()
}

/// Places in [`stat_fields`].
const PARENT: usize = 1;
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const CHILDREN_USER_TIME: usize = 13;
const CHILDREN_SYSTEM_TIME: usize = 14;

/// The fields of `/proc/PID/stat` after the name, which may hold anything, also blanks and parentheses.
fn stat_fields(id: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn stat_time(id: u32) -> Option<Duration> {
    let fields = stat_fields(id)?;
    let ticks = fields.get(USER_TIME)?.parse::<u64>().ok()? + fields.get(SYSTEM_TIME)?.parse::<u64>().ok()?;
    Some(from_ticks(ticks))
}

fn from_ticks(ticks: u64) -> Duration {
    Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

fn schedstat_of_threads(id: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten();
    // A thread that ends between the listing and the reading has no figure left.
    let times = threads.filter_map(|thread| schedstat_nanoseconds(thread.path().join("schedstat").to_str()?));
    Some(Duration::from_nanos(times.sum()))
}

fn schedstat_nanoseconds(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

/// A line of a file of `/proc` such as `VmRSS:  1234 kB`, in octets.
fn kibibytes(path: &str, name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{path}`"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(value.with_context(|| format!("`{path}` has no `{name}`"))? * 1024)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{CpuSource, anonymous_memory, family};

    /// Of a child, because this process has others that come and go with the tests beside this one.
    #[test]
    fn a_process_has_cpu_time_and_memory() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id();
        let times = [CpuSource::detect(), CpuSource::Stat].map(|source| source.cpu_time(id));
        let program = std::fs::read_link(format!("/proc/{id}/exe")).unwrap();
        let without = CpuSource::detect().cpu_time_without(id, &program).unwrap();
        let (family, memory) = (family(id), anonymous_memory(id));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(times.iter().all(Result::is_ok), "{times:?}");
        assert_eq!(family, [id]);
        assert_eq!(without, std::time::Duration::ZERO);
        assert!(memory.unwrap() > 0);
    }
}
