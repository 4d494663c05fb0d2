//! Measures tool calls between an MCP client and an MCP server of the same library, and the CPU time of both
//! programs.
//!
//! The client is the same program as the server, started with `--call`. `peers/calls` defines the format of
//! its output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use thruway_bench::usage;

use crate::case::whole_seconds;
use crate::figures::{Figures, Metric};
use crate::found::Found;
use crate::process::{PipedChild, Runner};
use crate::server::Server;

/// Runs a client that calls a server for `duration`, with `in_flight` calls at a time.
pub(crate) fn call(
    client: &Found,
    server: &Server,
    in_flight: u32,
    duration: Duration,
    runner: Runner<'_>,
) -> anyhow::Result<Figures> {
    let seconds = whole_seconds(duration);
    let mut command = Command::new(&client.program);
    command.args(["--call", &format!("http://{}/mcp", server.address)]);
    command.args(["--in-flight", &in_flight.to_string(), "--seconds", &seconds.to_string()]);
    let mut child = PipedChild::start(command.stderr(Stdio::null()), runner)?;
    let limit = Duration::from_secs(seconds) + EXTRA;
    runner.guarded(child.id(), limit, || measure(&mut child, server))
}

/// Starts the calls, and reads the CPU times of client and server before and after them.
fn measure(child: &mut PipedChild, server: &Server) -> anyhow::Result<Figures> {
    let ids = [child.id(), server.id()];
    let cpu_times = || ids.map(|id| usage(id).map(|usage| usage.cpu));
    let mut lines = BufReader::new(&mut child.output).lines();
    let ready = lines.next().context("the client has ended")??;
    ensure!(ready == "ready", "unexpected output of the client: {}", ready.escape_debug());
    let before = cpu_times();
    writeln!(child.input)?;
    let line = lines.next().context("the client has ended")??;
    let after = cpu_times();
    let used = |place: usize| Some(after[place]?.saturating_sub(before[place]?));
    let figures = counted(&line)
        .with_context(|| format!("unexpected output of the client: {}", line.escape_debug()))?;
    Ok(figures.with_cpu(Metric::GeneratorCpu, used(0)).with_cpu(Metric::ServerCpu, used(1)))
}

/// Parses the line with the number of calls and the seconds.
fn counted(line: &str) -> Option<Figures> {
    let (calls, seconds) = line.split_once(' ')?;
    let (calls, seconds) = (calls.parse().ok()?, seconds.parse().ok()?);
    (calls > 0 && seconds > 0.0).then(|| Figures::counted(calls, seconds))
}

/// Additional time for the start, the warm-up and the end.
const EXTRA: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_divided_by_calls_and_zero_calls_are_an_error() {
        let cpu = Some(Duration::from_millis(2));
        let figures = counted("100 2.0").unwrap().with_cpu(Metric::ServerCpu, cpu);
        assert_eq!(figures.answered, 100);
        assert_eq!((Metric::Rate.of(&figures), Metric::ServerCpu.of(&figures)), (Some(50.0), Some(20.0)));
        for line in ["0 2.0", "100", "ready", "100 0"] {
            assert!(counted(line).is_none(), "{line}");
        }
    }
}
