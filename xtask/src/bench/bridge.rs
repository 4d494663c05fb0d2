//! Loads a bridge from HTTP to the standard input and output of a server: our own load generator, as bridges want sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use thruway_bench::{
    Endpoint, Era, Limit, LoadUrl, Manner, McpOperation, McpRequests, Pace, Report, Revision, SessionUse,
    StopFlag, probe_http,
};

use super::metric::{Metric, Sample};
use super::prepare::{Prepared, Ready};
use super::server::{CLIENT_CORE, Server};
use super::stdio::Pinned;
use crate::process::CpuSource;
use crate::stop::Stop;

/// How a bridge is loaded.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// What is spoken with the bridge.
    pub(super) revision: Revision,
    pub(super) connections: u32,
    pub(super) seconds: u32,
}

/// The name of the server behind bridges in the table of peers.
pub(super) const BEHIND: &str = "mcp-on-thruway";

/// The program of the server behind bridges, if it is there.
pub(super) fn behind(ready: &Ready) -> Option<&Path> {
    ready.find(BEHIND).map(|prepared| prepared.program.as_path())
}

/// Runs a load against a freshly started bridge.
///
/// # Errors
/// Anything that makes the run no result; with the end of what the bridge printed.
pub(super) fn run(
    prepared: &Prepared,
    behind: Option<&Path>,
    load: Load,
    stop: &Stop,
) -> anyhow::Result<Sample> {
    let behind = behind.context("there is no server to be bridged to")?;
    let bridge = Server::start(prepared, stop)?;
    let _pinned = Pinned::to(CLIENT_CORE)?;
    run_on(&bridge, behind, load, stop).map_err(|error| bridge.blame(&error))
}

fn run_on(bridge: &Server, behind: &Path, load: Load, stop: &Stop) -> anyhow::Result<Sample> {
    let calls = calls(bridge, load)?;
    exchange(&calls, WARM_UP, stop)?;
    let source = CpuSource::detect();
    let cpu_times = || -> anyhow::Result<[Duration; 2]> {
        Ok([source.cpu_time(bridge.id())?, source.cpu_time_without(bridge.id(), behind)?])
    };
    let before = cpu_times()?;
    let report = exchange(&calls, Duration::from_secs(load.seconds.into()), stop)?;
    let after = cpu_times()?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let answered = report.requests.answered as f64;
    let per_call = |place: usize| after[place].saturating_sub(before[place]).as_secs_f64() * 1e6 / answered;
    Ok(Sample::from([
        (Metric::CpuPerRequest, per_call(0)),
        (Metric::CpuOfBridge, per_call(1)),
        (Metric::RequestsPerSecond, report.achieved_rate),
        (Metric::P50, report.response_time.p50),
        (Metric::P99, report.response_time.p99),
    ]))
}

/// Calls of `echo`, in the legacy era with a session for each connection.
fn calls(bridge: &Server, load: Load) -> anyhow::Result<thruway_bench::Load> {
    let url = LoadUrl::parse(&format!("http://{}/mcp", bridge.address()))?;
    let endpoint = Endpoint { url, headers: Vec::new(), is_persistent: true };
    let address = bridge.address().into();
    let facts = probe_http(&endpoint, &address, None, &[load.revision], PATIENCE)?;
    let sessions = match load.revision.era() {
        Era::Modern => SessionUse::None,
        Era::Legacy => SessionUse::PerConnection,
    };
    let arguments = json!({"message": "Benchmark test message {n}"});
    let tool = facts.tools.iter().find(|tool| tool.name == "echo");
    let echo = McpOperation {
        method: "tools/call".to_owned(),
        mirrored: tool.map_or_else(Vec::new, |tool| tool.mirrored(&arguments)),
        params: json!({"name": "echo", "arguments": arguments}),
        weight: 1,
    };
    let operations = [echo];
    let requests = McpRequests::new(facts.revision, sessions, &operations, Some(&endpoint))?;
    Ok(thruway_bench::Load {
        requests: Arc::new(requests),
        addresses: vec![address],
        tls: None,
        connections: load.connections as usize,
        workers: 1,
        pace: Pace::Closed,
        limit: Limit::Duration(WARM_UP),
        warm_up: Duration::ZERO,
        manner: Manner {
            is_http2: false,
            pipeline: 1,
            is_persistent: true,
            timeout: PATIENCE,
            drain: PATIENCE,
        },
        stop: StopFlag::default(),
        server: None,
    })
}

/// Calls for so long; no call may fail.
fn exchange(calls: &thruway_bench::Load, duration: Duration, stop: &Stop) -> anyhow::Result<Report> {
    let flag = StopFlag::default();
    let calls = thruway_bench::Load { limit: Limit::Duration(duration), stop: flag.clone(), ..calls.clone() };
    let outcome = calls.run(&mut |_| {
        if stop.check().is_err() {
            flag.stop();
        }
    })?;
    stop.check()?;
    let report = Report::new("", &calls, &outcome);
    let failure = report.errors.first().map_or_else(String::new, |error| error.example.clone());
    ensure!(report.requests.failed == 0, "{} calls failed: {failure}", report.requests.failed);
    ensure!(report.requests.answered > 0, "no call was answered");
    Ok(report)
}

/// Children are started, and code that is interpreted grows fast.
const WARM_UP: Duration = Duration::from_secs(1);

const PATIENCE: Duration = Duration::from_secs(10);
