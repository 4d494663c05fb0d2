//! Runs of gateways: each has a backend behind it, and what is done to it besides being loaded.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::measure::with_cpu_time;
use super::metric::{Metric, Sample};
use super::prepare::{Prepared, Ready};
use super::probe::Probe;
use super::request::Request;
use super::server::{BOTH_CORES, CLIENT_CORE, SERVER_CORE, Server};
use super::workloads::{GatewayLoad, Placement, What};
use super::{idle, wrk};
use crate::child;
use crate::stop::Stop;

/// What stands behind gateways.
#[derive(Clone, Copy)]
pub(super) struct Backends<'a> {
    /// Ours, with everything that its demo has.
    pub(super) fast: Option<&'a Prepared>,
    closing: Option<&'a Prepared>,
}

/// Their names in the table of peers.
pub(super) const BACKENDS: [&str; 2] = ["gateway-backend", "closing-backend"];

impl<'a> Backends<'a> {
    /// Those that are there.
    pub(super) fn of(ready: &'a Ready) -> Self {
        let [fast, closing] = BACKENDS.map(|name| ready.find(name));
        Self { fast, closing }
    }

    fn find(self, placement: Placement) -> anyhow::Result<&'a Prepared> {
        let backend = if placement == Placement::Closing { self.closing } else { self.fast };
        backend.context("there is no backend")
    }
}

/// Runs a load against a freshly started gateway with a backend.
///
/// # Errors
/// Anything that makes the run no result; with the end of what the gateway printed.
pub(super) fn run(
    prepared: &Prepared,
    backends: Backends<'_>,
    load: GatewayLoad,
    seconds: u32,
    stop: &Stop,
) -> anyhow::Result<Sample> {
    let cores = |core: u32| {
        if load.placement == Placement::Shared { BOTH_CORES.to_owned() } else { core.to_string() }
    };
    let backend = backends.find(load.placement)?;
    let backend = Server::start(backend, &cores(CLIENT_CORE), None, stop)?;
    let server = Server::start(prepared, &cores(SERVER_CORE), Some(backend.address()), stop)?;
    let wrk_load = wrk::Load {
        request: load.request,
        connections: load.connections,
        depth: 1,
        seconds: seconds * load.stretch(),
        cores: cores(CLIENT_CORE),
    };
    run_on(&server, load, &wrk_load, stop).map_err(|error| server.blame(&error))
}

fn run_on(server: &Server, load: GatewayLoad, wrk: &wrk::Load, stop: &Stop) -> anyhow::Result<Sample> {
    let address = server.address();
    let probe = Probe::connect(address, load.request)?;
    let answer_bytes = probe.answer_bytes();
    let is_slow = load.placement == Placement::Closing;
    probe.warm_up(if is_slow { SLOW_WARM_UP } else { super::probe::WARM_UP })?;
    let under_load = || -> anyhow::Result<wrk::Totals> {
        let totals = wrk::run(wrk, address, stop)?;
        totals.check(wrk, answer_bytes)?;
        Ok(totals)
    };
    match load.what {
        What::Idle => idle::measure(address, Request::Ok, server.id(), load.connections, stop),
        What::Requests => with_cpu_time(server.id(), || {
            let before = listen_overflows()?;
            let totals = under_load()?;
            let mut figures = totals.figures(wrk);
            figures.insert(Metric::ListenOverflows, listen_overflows()? - before);
            Ok((totals.requests, figures))
        }),
        What::Reloads => {
            let usual = under_load()?.figures(wrk);
            with_cpu_time(server.id(), || {
                let reloads = Reloads::begin(server.id());
                let totals = under_load();
                let reloads = reloads.end();
                let totals = totals?;
                ensure!(reloads > 0, "there was no reload");
                let mut figures = totals.figures(wrk);
                figures.insert(Metric::P99Growth, figures[&Metric::P99] / usual[&Metric::P99]);
                figures.insert(Metric::Reloads, f64::from(reloads));
                Ok((totals.requests, figures))
            })
        }
    }
}

/// Tells a server again and again that its config has changed.
struct Reloads {
    over: Sender<()>,
    thread: JoinHandle<u32>,
}

impl Reloads {
    fn begin(server: u32) -> Self {
        let (over, is_over) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut reloads = 0;
            while is_over.recv_timeout(RELOAD_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                child::hang_up(server);
                reloads += 1;
            }
            reloads
        });
        Self { over, thread }
    }

    /// Stops telling; how often it was told.
    fn end(self) -> u32 {
        drop(self.over);
        self.thread.join().unwrap_or(0)
    }
}

/// How many connections this machine has not taken so far because a listener had too many waiting.
fn listen_overflows() -> anyhow::Result<f64> {
    let netstat = fs::read_to_string("/proc/net/netstat").context("cannot read `/proc/net/netstat`")?;
    counter(&netstat, "TcpExt:", "ListenOverflows").context("the kernel does not count `ListenOverflows`")
}

/// A counter of a file in which each group has a line of names and one of numbers.
fn counter(netstat: &str, group: &str, name: &str) -> Option<f64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with(group));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|found| found == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

const RELOAD_INTERVAL: Duration = Duration::from_millis(200);

/// For a backend that takes a millisecond for each request.
const SLOW_WARM_UP: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::counter;

    #[test]
    fn a_counter_stands_below_its_name() {
        let netstat = "TcpExt: A ListenOverflows B\nTcpExt: 1 23 4\nIpExt: ListenOverflows\nIpExt: 7\n";
        assert_eq!(counter(netstat, "TcpExt:", "ListenOverflows"), Some(23.0));
        assert_eq!(counter(netstat, "TcpExt:", "C"), None);
    }
}
