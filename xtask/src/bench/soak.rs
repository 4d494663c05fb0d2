//! A million messages, after which nothing may have grown.

use anyhow::ensure;

use super::metric::{Metric, Sample};
use super::probe::Probe;
use super::request::Request;
use super::server::{CLIENT_CORE, Server};
use super::wrk;
use crate::process;
use crate::stop::Stop;

/// How a server is loaded.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// So many at least.
    pub(super) requests: u64,
    pub(super) connections: u32,
    /// How long one kind of message lasts.
    pub(super) seconds: u32,
}

/// Sends all kinds of messages in turn. The first round is a warm-up: what it leaves behind is not counted.
///
/// # Errors
/// When a run of `wrk` is no result, or the server is gone.
pub(super) fn run(server: &Server, load: Load, stop: &Stop) -> anyhow::Result<(u64, Sample)> {
    let warm_up = round(server, load, stop)?;
    let before = process::anonymous_memory(server.id())?;
    let mut requests = 0;
    while requests < load.requests {
        let more = round(server, load, stop)?;
        ensure!(more > 0, "no request was answered");
        requests += more;
    }
    let after = process::anonymous_memory(server.id())?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let figures =
        [(Metric::AnonymousGrowth, after as f64 - before as f64), (Metric::Requests, requests as f64)];
    Ok((warm_up + requests, Sample::from(figures)))
}

/// Each kind of message for a while; how many there were.
fn round(server: &Server, load: Load, stop: &Stop) -> anyhow::Result<u64> {
    let mut requests = 0;
    for request in [Request::CallTool, Request::ListTools, Request::LegacyCallTool, Request::LegacyPing] {
        let answer_bytes = Probe::connect(server.address(), request)?.answer_bytes();
        let Load { connections, seconds, .. } = load;
        let load = wrk::Load { request, connections, depth: 1, seconds, core: CLIENT_CORE };
        let totals = wrk::run(&load, server.address(), stop)?;
        totals.check(&load, answer_bytes)?;
        requests += totals.requests;
    }
    Ok(requests)
}
