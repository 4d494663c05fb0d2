//! One run: start a server, check it, load it, read what that cost.

use std::time::Duration;

use super::metric::{Metric, Sample};
use super::plan::Plan;
use super::prepare::Prepared;
use super::probe::Probe;
use super::server::Server;
use super::workloads::Load;
use super::{bridge, calls, command, soak, stdio, wrk};
use crate::process::CpuSource;
use crate::stop::{Stop, now};

/// Runs a load against a freshly started server.
///
/// # Errors
/// Anything that makes the run no result; with the end of what the server printed.
pub(super) fn run(prepared: &Prepared, plan: &Plan<'_>, load: Load, stop: &Stop) -> anyhow::Result<Sample> {
    let &Plan { behind_bridges, beside_commands, seconds, .. } = plan;
    match load {
        Load::Stdio { request, window } => {
            stdio::run(prepared, stdio::Load { request, window, seconds }, stop)
        }
        Load::Calls { in_flight, core } if calls::has_client(prepared) => {
            calls::run(prepared, calls::Load { in_flight, seconds, core }, stop)
        }
        Load::Bridge { revision, connections } => {
            bridge::run(prepared, behind_bridges, bridge::Load { revision, connections, seconds }, stop)
        }
        Load::Command { runs } => command::run(prepared, beside_commands, runs, stop),
        _ => {
            let server = Server::start(prepared, stop)?;
            run_on(&server, load, seconds, stop).map_err(|error| server.blame(&error))
        }
    }
}

fn run_on(server: &Server, load: Load, seconds: u32, stop: &Stop) -> anyhow::Result<Sample> {
    let request = load.request();
    let probe = Probe::connect(server.address(), request)?;
    let answer_bytes = probe.answer_bytes();
    probe.warm_up()?;
    let wrk_load = |connections, depth| {
        let core = load.core_of_client();
        wrk::Load { request, connections, depth, seconds, core }
    };
    match load {
        Load::Wrk { connections, depth } => {
            load_with_wrk(server, &wrk_load(connections, depth), answer_bytes, stop)
        }
        Load::Mcp { connections, .. } | Load::Calls { in_flight: connections, .. } => {
            load_with_wrk(server, &wrk_load(connections, 1), answer_bytes, stop)
        }
        Load::Soak { requests, connections } => {
            let load = soak::Load { requests, connections, seconds };
            with_cpu_time(server.id(), || soak::run(server, load, stop))
        }
        Load::Stdio { .. } | Load::Bridge { .. } | Load::Command { .. } => unreachable!("runs of its own"),
    }
}

fn load_with_wrk(
    server: &Server,
    load: &wrk::Load,
    answer_bytes: usize,
    stop: &Stop,
) -> anyhow::Result<Sample> {
    with_cpu_time(server.id(), || {
        let totals = wrk::run(load, server.address(), stop)?;
        totals.check(load, answer_bytes)?;
        Ok((totals.requests, totals.figures(load)))
    })
}

/// Adds the server's CPU time to the figures of a load.
///
/// # Errors
/// Those of the load, and when the server is gone.
pub(super) fn with_cpu_time(
    server: u32,
    load: impl FnOnce() -> anyhow::Result<(u64, Sample)>,
) -> anyhow::Result<Sample> {
    let source = CpuSource::detect();
    let (started, before) = (now(), source.cpu_time(server)?);
    let (requests, mut sample) = load()?;
    let spent: Duration = source.cpu_time(server)?.saturating_sub(before);
    let elapsed = started.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let per_request = spent.as_secs_f64() * 1e6 / requests as f64;
    sample.insert(Metric::CpuPerRequest, per_request);
    sample.insert(Metric::CoreUse, spent.as_secs_f64() / elapsed.as_secs_f64());
    Ok(sample)
}
