//! Assigns cores to servers and the load generator. A child process inherits the cores of the thread that
//! starts it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

    /// Returns an assignment with the load generator on the core of the servers.
    pub(crate) fn one(&self) -> Self {
        let Self { server, backend, count, all, .. } = *self;
        Self { server, load: server, backend, count, all, description: self.description.clone() }
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
}
