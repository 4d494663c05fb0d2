//! One run: start a server, check it, load it, read what that cost.

use std::time::Duration;

use super::metric::{Metric, Sample};
use super::plan::Plan;
use super::prepare::Prepared;
use super::probe::{Probe, WARM_UP};
use super::request::PLAINTEXT;
use super::server::{CLIENT_CORE, SERVER_CORE, Server};
use super::workloads::Load;
use super::{ab, bridge, calls, command, gateway, idle, soak, stdio, wrk};
use crate::process::CpuSource;
use crate::stop::{Stop, now};

/// Octets of the content of every answer that `ab` gets.
const CONTENT_BYTES: u64 = PLAINTEXT.len() as u64;

/// Runs a load against a freshly started server.
///
/// # Errors
/// Anything that makes the run no result; with the end of what the server printed.
pub(super) fn run(prepared: &Prepared, plan: &Plan<'_>, load: Load, stop: &Stop) -> anyhow::Result<Sample> {
    let &Plan { backends, behind_bridges, seconds, .. } = plan;
    match load {
        Load::Stdio { request, window } => {
            stdio::run(prepared, stdio::Load { request, window, seconds }, stop)
        }
        Load::Gateway(load) => gateway::run(prepared, backends, load, seconds, stop),
        Load::Calls { in_flight } => calls::run(prepared, calls::Load { in_flight, seconds }, stop),
        Load::Bridge { revision, connections } => {
            bridge::run(prepared, behind_bridges, bridge::Load { revision, connections, seconds }, stop)
        }
        Load::Command { runs } => command::run(prepared, backends, runs, stop),
        _ => {
            let server = Server::start(prepared, &SERVER_CORE.to_string(), None, stop)?;
            run_on(&server, load, seconds, stop).map_err(|error| server.blame(&error))
        }
    }
}

fn run_on(server: &Server, load: Load, seconds: u32, stop: &Stop) -> anyhow::Result<Sample> {
    let address = server.address();
    let request = load.request();
    let probe = Probe::connect(address, request)?;
    let answer_bytes = probe.answer_bytes();
    probe.warm_up(WARM_UP)?;
    let wrk_load = |request, connections, depth, seconds| wrk::Load {
        request,
        connections,
        depth,
        seconds,
        cores: CLIENT_CORE.to_string(),
    };
    match load {
        Load::Wrk { connections, depth, stretch } => load_with_wrk(
            server,
            &wrk_load(request, connections, depth, seconds * stretch),
            answer_bytes,
            stop,
        ),
        Load::Mcp { connections, .. } => {
            load_with_wrk(server, &wrk_load(request, connections, 1, seconds), answer_bytes, stop)
        }
        Load::Ab { requests, connections, persistent } => {
            let load = ab::Load { requests, connections, persistent };
            with_cpu_time(server.id(), || {
                let totals = ab::run(load, address, stop)?;
                totals.check(load, CONTENT_BYTES)?;
                Ok((totals.requests, totals.figures()))
            })
        }
        Load::Idle { connections } => idle::measure(address, request, server.id(), connections, stop),
        Load::Soak { requests, connections } => {
            let load = soak::Load { requests, connections, seconds };
            with_cpu_time(server.id(), || soak::run(server, load, stop))
        }
        Load::Stdio { .. }
        | Load::Gateway(_)
        | Load::Calls { .. }
        | Load::Bridge { .. }
        | Load::Command { .. } => unreachable!("runs of its own"),
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
