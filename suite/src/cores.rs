//! Assigns cores to servers and the load generator. A child process inherits the cores of the thread that
//! starts it.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// The assignment of the cores of this machine.
pub(crate) struct Cores {
    /// Core of the measured servers.
    pub(crate) server: CpuSet,
    /// Core of the load generator.
    pub(crate) load: CpuSet,
    /// Core of the backends of gateways.
    pub(crate) backend: CpuSet,
    /// Number of cores.
    pub(crate) count: usize,
    all: CpuSet,
    description: String,
}

impl Cores {
    /// Assigns the cores that this thread may use.
    pub(crate) fn assign() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let description = describe(&cores);
        let core = |place: usize| {
            let mut only = CpuSet::new();
            cores.get(place.min(cores.len().saturating_sub(1))).inspect(|core| only.set(**core));
            only
        };
        let (server, load, backend, count) = (core(0), core(1), core(2), cores.len());
        Self { server, load, backend, count, all: allowed, description }
    }

    /// Returns an assignment in which all processes may use all cores.
    pub(crate) fn shared(&self) -> Self {
        let Self { all, count, .. } = *self;
        Self { server: all, load: all, backend: all, count, all, description: self.description.clone() }
    }

    /// Returns an assignment with the load generator and the backends on the core of the servers.
    pub(crate) fn one(&self) -> Self {
        let Self { server, count, all, .. } = *self;
        Self { server, load: server, backend: server, count, all, description: self.description.clone() }
    }

    /// Describes the assignment.
    pub(crate) fn describe(&self) -> &str {
        &self.description
    }
}

/// Restricts this thread, and the programs that it starts later, to `cores`.
pub(crate) fn run_on(cores: &CpuSet) {
    // If this is not allowed, the programs run on any core.
    let _ = sched_setaffinity(None, cores);
}

/// Makes this thread, and the threads and programs that it starts, batch tasks until this value is dropped.
///
/// The kernel does not interrupt a running task when a batch task wakes up (`SCHED_BATCH`). Programs on one
/// core therefore take turns, and each runs until it has no more work. Without this, a request can wake the
/// server before the load generator has sent the next one, and each load generator makes another number of
/// wake-ups.
pub(crate) struct BatchTasks(());

impl BatchTasks {
    pub(crate) fn begin() -> anyhow::Result<Self> {
        set_scheduling("--batch").map(Self)
    }
}

impl Drop for BatchTasks {
    fn drop(&mut self) {
        // If this fails, later cases run as batch tasks on cores of their own, where it makes no difference.
        let _ = set_scheduling("--other");
    }
}

/// Sets the scheduling policy of this thread with `chrt`, because no safe function does it.
fn set_scheduling(policy: &str) -> anyhow::Result<()> {
    let thread = gettid().as_raw_nonzero().to_string();
    let mut command = Command::new(CHRT);
    command.args([policy, "--pid", "0", &thread]).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("cannot run `{CHRT}`"))?;
    ensure!(status.success(), "`{CHRT} {policy}` ended with {status}");
    Ok(())
}

/// The program that sets scheduling policies, from util-linux.
pub(crate) const CHRT: &str = "chrt";

fn describe(cores: &[usize]) -> String {
    match cores {
        [] => "unknown".to_owned(),
        [one] => format!("everything on core {one}: servers and load generator compete for it"),
        [server, load] => {
            format!("servers on core {server}; the load generator, and backends of gateways, on core {load}")
        }
        [server, load, backend, ..] => format!(
            "servers on core {server}, the load generator on core {load}, backends of gateways on core {backend}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_cores_is_described() {
        assert!(describe(&[3]).contains("everything on core 3"));
        assert!(describe(&[0, 1]).ends_with("on core 1"));
        assert!(describe(&[0, 2, 4, 6]).ends_with("gateways on core 4"));
    }

    #[test]
    fn thread_runs_on_the_assigned_core() {
        let cores = Cores::assign();
        assert!(cores.count > 0);
        run_on(&cores.server);
        assert_eq!(Cores::assign().count, 1);
        run_on(&cores.shared().server);
        assert_eq!(Cores::assign().count, cores.count);
    }

    #[test]
    fn started_programs_are_batch_tasks_until_the_end() {
        let policy = || {
            let stat = Command::new("cat").arg("/proc/self/stat").output().unwrap().stdout;
            String::from_utf8(stat).unwrap().split(' ').nth(40).unwrap().to_owned()
        };
        let batch = BatchTasks::begin().unwrap();
        assert_eq!(policy(), "3");
        drop(batch);
        assert_eq!(policy(), "0");
    }
}
