//! The cores of servers and of the load generator. A child process inherits the cores of the thread that
//! starts it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of this machine, shared out.
pub(crate) struct Cores {
    /// Of the servers that are measured.
    pub(crate) server: CpuSet,
    /// Of the load generator.
    pub(crate) load: CpuSet,
    /// Of the backends of gateways.
    pub(crate) backend: CpuSet,
    /// Number of cores.
    pub(crate) count: usize,
    all: CpuSet,
    description: String,
}

impl Cores {
    /// Shares out the cores that this thread may use.
    pub(crate) fn share_out() -> Self {
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

    /// The same cores, of which everything may use each.
    pub(crate) fn shared(&self) -> Self {
        let Self { all, count, .. } = *self;
        Self { server: all, load: all, backend: all, count, all, description: self.description.clone() }
    }

    /// The same cores, with the load generator on that of the servers.
    pub(crate) fn one(&self) -> Self {
        let Self { server, backend, count, all, .. } = *self;
        Self { server, load: server, backend, count, all, description: self.description.clone() }
    }

    /// In words.
    pub(crate) fn describe(&self) -> &str {
        &self.description
    }
}

/// Runs this thread on `cores`, and with it all programs that it starts from now on.
pub(crate) fn run_on(cores: &CpuSet) {
    // Where that is not allowed, the figures of the report come from any core.
    let _ = sched_setaffinity(None, cores);
}

fn describe(cores: &[usize]) -> String {
    match cores {
        [] => "unknown".to_owned(),
        [one] => format!("everything on core {one}: servers and load disturb each other"),
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
    fn a_thread_runs_where_it_is_told() {
        let cores = Cores::share_out();
        assert!(cores.count > 0);
        run_on(&cores.server);
        assert_eq!(Cores::share_out().count, 1);
        run_on(&cores.shared().server);
        assert_eq!(Cores::share_out().count, cores.count);
    }
}
