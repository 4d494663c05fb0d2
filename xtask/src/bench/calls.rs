//! A client and a server of one library: calls of a tool, and what both cost together.
//!
//! The client is the program of the server, started with `--call`; what they say to each other is in `peers/calls`. Beside
//! them stands what the machine allows: a server that reads nothing, with `wrk` in the client's place.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};

use super::metric::{Metric, Sample};
use super::prepare::Prepared;
use super::server::Server;
use super::stdio::guarded;
use crate::child::{self, Running};
use crate::process::CpuSource;
use crate::stop::Stop;

/// How a server is called.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) in_flight: u32,
    pub(super) seconds: u32,
    /// The core of the client.
    pub(super) core: u32,
}

/// Whether the program is a client as well.
pub(super) fn has_client(prepared: &Prepared) -> bool {
    prepared.peer.name != FLOOR
}

/// Runs a client against a freshly started server.
///
/// # Errors
/// Anything that makes the run no result; with the end of what both printed.
pub(super) fn run(prepared: &Prepared, load: Load, stop: &Stop) -> anyhow::Result<Sample> {
    let server = Server::start(prepared, stop)?;
    let errors = tempfile::NamedTempFile::new()?;
    let url = format!("http://{}/mcp", server.address());
    let (client, input, output) =
        Running::start_with_pipes(client_command(prepared, load, &url), errors.path())?;
    let ids = [client.id(), server.id()];
    let limit = Duration::from_secs(load.seconds.into()) + EXTRA;
    let loaded = guarded(client, limit, stop, || measure(ids, input, output));
    let loaded =
        loaded.map_err(|error| match child::tail(&fs::read_to_string(errors.path()).unwrap_or_default()) {
            tail if tail.is_empty() => error,
            tail => anyhow!("{error:#}\nthe client printed\n{tail}"),
        });
    loaded.map_err(|error| server.blame(&error))
}

fn client_command(prepared: &Prepared, load: Load, url: &str) -> Command {
    let mut command = child::pinned(&load.core.to_string(), &prepared.program);
    command.args(arguments(load, url));
    command
}

/// The arguments of a client; the same on paper and in the run.
pub(super) fn arguments(load: Load, url: &str) -> Vec<String> {
    let Load { in_flight, seconds, .. } = load;
    let words = format!("--call {url} --in-flight {in_flight} --seconds {seconds}");
    words.split(' ').map(str::to_owned).collect()
}

/// Lets the client begin, and looks at what both have cost before and after.
fn measure(ids: [u32; 2], mut input: ChildStdin, output: ChildStdout) -> anyhow::Result<Sample> {
    let source = CpuSource::detect();
    let cpu_times = || -> anyhow::Result<[Duration; 2]> {
        let [client, server] = ids.map(|id| source.cpu_time(id));
        Ok([client?, server?])
    };
    let mut lines = BufReader::new(output).lines();
    let mut next = || anyhow::Ok(lines.next().context("the client has ended")??);
    let ready = next()?;
    ensure!(ready == "ready", "the client says {ready:?}");
    let before = cpu_times()?;
    writeln!(input)?;
    let said = next()?;
    let after = cpu_times()?;
    sample(&said, before, after).with_context(|| format!("the client says {said:?}"))
}

fn sample(said: &str, before: [Duration; 2], after: [Duration; 2]) -> anyhow::Result<Sample> {
    let (calls, seconds) = said.split_once(' ').context("there are not two numbers")?;
    let (calls, seconds): (f64, f64) = (calls.parse()?, seconds.parse()?);
    ensure!(calls > 0.0 && seconds > 0.0, "nothing was called");
    let per_call = |place: usize| after[place].saturating_sub(before[place]).as_secs_f64() * 1e6 / calls;
    let (client, server) = (per_call(0), per_call(1));
    Ok(Sample::from([
        (Metric::CpuOfBoth, client + server),
        (Metric::CpuOfClient, client),
        (Metric::CpuPerRequest, server),
        (Metric::RequestsPerSecond, calls / seconds),
    ]))
}

/// A peer that is no server of MCP, and has no client: what the machine allows.
const FLOOR: &str = "ceiling";

/// For the start, the warm-up and the end.
const EXTRA: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_cost_is_shared_out_among_the_calls() {
        let times = |client, server| [client, server].map(Duration::from_micros);
        let sample = sample("100 2.0", times(1000, 5000), times(3000, 6000)).unwrap();
        let expected = [
            (Metric::CpuPerRequest, 10.0),
            (Metric::CpuOfBoth, 30.0),
            (Metric::CpuOfClient, 20.0),
            (Metric::RequestsPerSecond, 50.0),
        ];
        for (metric, value) in expected {
            assert!((sample[&metric] - value).abs() < 1e-9, "{metric:?}: {sample:?}");
        }
    }

    #[test]
    fn a_client_that_has_called_nothing_is_no_result() {
        for said in ["0 2.0", "100", "ready", "100 0"] {
            assert!(sample(said, [Duration::ZERO; 2], [Duration::ZERO; 2]).is_err(), "{said}");
        }
    }
}
