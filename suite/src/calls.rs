//! A client and a server of one library: calls of a tool, and the CPU time of both.
//!
//! The client is the program of the server, started with `--call`; `peers/calls` defines their lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use thruway_bench::usage;

use crate::case::whole_seconds;
use crate::figures::{Figures, cpu_each};
use crate::found::Found;
use crate::process::guarded;
use crate::server::{Server, ServerResources};

/// Lets a client call a server for `duration`, with `in_flight` calls at a time.
pub(crate) fn call(
    client: &Found,
    server: &Server,
    in_flight: u32,
    duration: Duration,
    ground: ServerResources<'_>,
) -> Result<Figures, String> {
    let seconds = whole_seconds(duration);
    let mut command = Command::new(&client.program);
    command.args(["--call", &format!("http://{}/mcp", server.address)]);
    command.args(["--in-flight", &in_flight.to_string(), "--seconds", &seconds.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = ground.groups.start(&mut command).map_err(|error| error.to_string())?;
    let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("it has no pipes")?;
    let ids = [child.id(), server.id()];
    let limit = Duration::from_secs(seconds) + EXTRA;
    let figures = guarded(child.id(), limit, ground.stop, || measure(ids, input, output));
    // The client ends at the end of its input; it is ended in any case.
    let _ = child.kill();
    let _ = child.wait();
    ground.groups.forget(child.id());
    figures
}

/// Lets the client begin, and reads the CPU times of client and server before and after.
fn measure(ids: [u32; 2], mut input: ChildStdin, output: ChildStdout) -> Result<Figures, String> {
    let mut lines = BufReader::new(output).lines();
    let mut next = || lines.next().and_then(Result::ok).ok_or("the client has ended");
    let cpu_times = || -> Result<[Duration; 2], &str> {
        let [client, server] = ids.map(|id| usage(id).map(|usage| usage.cpu).ok_or("a process is gone"));
        Ok([client?, server?])
    };
    let ready = next()?;
    if ready != "ready" {
        return Err(format!("the client says {}", ready.escape_debug()));
    }
    let before = cpu_times()?;
    writeln!(input).map_err(|error| error.to_string())?;
    let said = next()?;
    let after = cpu_times()?;
    let [client, server] = [0, 1].map(|place| after[place].saturating_sub(before[place]));
    figures(&said, client, server)
}

/// Reads the line with the number of calls and of seconds.
fn figures(said: &str, client: Duration, server: Duration) -> Result<Figures, String> {
    let numbers =
        said.split_once(' ').and_then(|(calls, seconds)| Some((calls.parse().ok()?, seconds.parse().ok()?)));
    let (calls, seconds): (u64, f64) =
        numbers.ok_or_else(|| format!("the client says {}", said.escape_debug()))?;
    if calls == 0 || seconds <= 0.0 {
        return Err("the client called nothing".to_owned());
    }
    Ok(Figures {
        server_cpu: Some(cpu_each(server, calls)),
        generator_cpu: Some(cpu_each(client, calls)),
        ..Figures::counted(calls, seconds)
    })
}

/// Time for the start, the warm-up and the end.
const EXTRA: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_shared_out_among_the_calls() {
        let figures = figures("100 2.0", Duration::from_millis(2), Duration::from_millis(1)).unwrap();
        assert_eq!((figures.answered, figures.rate), (100, 50.0));
        assert_eq!((figures.server_cpu, figures.generator_cpu), (Some(10.0), Some(20.0)));
    }

    #[test]
    fn a_client_that_has_called_nothing_is_no_result() {
        for said in ["0 2.0", "100", "ready", "100 0"] {
            assert!(figures(said, Duration::ZERO, Duration::ZERO).is_err(), "{said}");
        }
    }
}
