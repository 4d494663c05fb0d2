//! Loads a server with `wrk` and reads its totals.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::metric::{Metric, Sample};
use super::request::Request;
use crate::child;
use crate::stop::Stop;

/// Prints what [`Totals`] reads, and pipelines.
const SCRIPT: &str = include_str!("wrk.lua");

/// What `wrk` may take beyond its duration: thousands of connections are opened and closed.
const EXTRA: Duration = Duration::from_secs(20);

/// An answer that takes longer is an error; two seconds are the default of `wrk`.
const SHORTEST_TIMEOUT_SECONDS: u32 = 2;

/// More connections may take longer: who waits while ten thousand others are accepted is slow, not broken.
const CONNECTIONS_PER_TIMEOUT_SECOND: u32 = 1000;

/// How a server is loaded.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) request: Request,
    pub(super) connections: u32,
    /// Requests that a connection sends before it reads.
    pub(super) depth: u32,
    pub(super) seconds: u32,
    /// The core of `wrk`.
    pub(super) core: u32,
}

/// The totals of a run, as `wrk.lua` prints them.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Totals {
    pub(super) requests: u64,
    bytes: u64,
    microseconds: f64,
    connect: u64,
    read: u64,
    write: u64,
    status: u64,
    timeout: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    longest: f64,
}

/// The arguments for a load; the same on paper and in the run.
///
/// Requests other than `GET /plaintext` are in the file `request`, as they are sent.
pub(super) fn arguments(load: &Load, address: &str, script: &str, request: &str) -> Vec<String> {
    let &Load { connections, depth, seconds, .. } = load;
    let timeout = SHORTEST_TIMEOUT_SECONDS.max(connections / CONNECTIONS_PER_TIMEOUT_SECOND);
    let mut arguments = vec!["-t1".to_owned(), format!("-c{connections}"), format!("-d{seconds}s")];
    arguments.extend(["--timeout".to_owned(), format!("{timeout}s")]);
    if load.request == Request::Plaintext {
        for field in ["Host: 127.0.0.1", "Accept: text/plain", "Connection: keep-alive"] {
            arguments.extend(["-H".to_owned(), field.to_owned()]);
        }
    }
    arguments.extend(
        ["-s", script, &format!("http://{address}/plaintext"), "--", &depth.to_string()].map(str::to_owned),
    );
    if load.request != Request::Plaintext {
        arguments.push(request.to_owned());
    }
    arguments
}

/// Runs a load.
///
/// # Errors
/// When `wrk` fails.
pub(super) fn run(load: &Load, address: SocketAddr, stop: &Stop) -> anyhow::Result<Totals> {
    let script = tempfile::Builder::new().suffix(".lua").tempfile()?;
    std::fs::write(script.path(), SCRIPT)?;
    let path = script.path().to_str().context("the temporary directory's path is not UTF-8")?;
    let request = tempfile::NamedTempFile::new()?;
    std::fs::write(request.path(), load.request.octets())?;
    let request_path = request.path().to_str().context("the temporary directory's path is not UTF-8")?;
    let mut command = child::pinned(&load.core.to_string(), Path::new("wrk"));
    command.args(arguments(load, &address.to_string(), path, request_path));
    let limit = Duration::from_secs(u64::from(load.seconds)) + EXTRA;
    parse(&child::output_of("wrk", command, limit, stop)?)
}

fn parse(printed: &str) -> anyhow::Result<Totals> {
    let line = printed.lines().find(|line| line.starts_with('{'));
    let line = line.with_context(|| format!("`wrk` printed no totals:\n{printed}"))?;
    serde_json::from_str(line).with_context(|| format!("`wrk` printed `{line}`"))
}

impl Totals {
    /// Makes sure that the run is a result: no error, and no answer of another length.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn check(&self, load: &Load, answer_bytes: usize) -> anyhow::Result<()> {
        let Self { requests, bytes, connect, read, write, status, timeout, .. } = *self;
        ensure!(requests > 0, "no request was answered");
        ensure!(
            connect + read + write + timeout == 0,
            "socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        );
        ensure!(status == 0, "{status} answers were neither 2xx nor 3xx");
        let answer_bytes = u64::try_from(answer_bytes)?;
        let least = requests * answer_bytes;
        // Each connection may have read part of an answer when the time was over.
        let most = least + u64::from(load.connections) * answer_bytes;
        ensure!(
            (least..=most).contains(&bytes),
            "wrong length: {requests} answers of {answer_bytes} octets make {least}, but {bytes} were read"
        );
        Ok(())
    }

    /// The figures of the run; latencies only where they mean something.
    pub(super) fn figures(&self, load: &Load) -> Sample {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let requests_per_second = self.requests as f64 / (self.microseconds / 1e6);
        let mut sample = Sample::from([(Metric::RequestsPerSecond, requests_per_second)]);
        if load.depth == 1 {
            sample.extend([
                (Metric::P50, self.p50),
                (Metric::P90, self.p90),
                (Metric::P99, self.p99),
                (Metric::Longest, self.longest),
            ]);
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, Metric, Request, Totals, parse};

    const LOAD: Load = Load { request: Request::Plaintext, connections: 2, depth: 1, seconds: 1, core: 1 };

    /// What `wrk` 4.1 prints with the script.
    const PRINTED: &str = r#"Running 1s test @ http://127.0.0.1:4100/plaintext
  1 threads and 2 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.20ms   86.30us   3.13ms   91.73%
    Req/Sec   213.90k     3.62k  221.97k    70.00%
  1000 requests in 2.00s, 129.88KB read
Requests/sec:    500.00
Transfer/sec:     64.94KB
{"requests":1000,"bytes":133000,"microseconds":2000000,"connect":0,"read":0,"write":0,"status":0,"timeout":0,"p50":1190,"p90":1280,"p99":1500,"longest":3130}
"#;

    fn totals() -> Totals {
        parse(PRINTED).unwrap()
    }

    #[test]
    fn totals_are_read_from_the_line_of_the_script() {
        let sample = totals().figures(&LOAD);
        assert_eq!(totals().requests, 1000);
        assert_eq!((sample[&Metric::RequestsPerSecond], sample[&Metric::P99]), (500.0, 1500.0));
    }

    #[test]
    fn a_pipelined_load_has_no_latencies() {
        let sample = totals().figures(&Load { depth: 16, ..LOAD });
        assert_eq!(sample.keys().collect::<Vec<_>>(), [&Metric::RequestsPerSecond]);
    }

    #[test]
    fn output_without_the_line_is_refused() {
        assert!(parse("unable to connect to 127.0.0.1:1 Connection refused\n").is_err());
    }

    #[test]
    fn answers_of_the_right_length_are_accepted_with_parts_of_the_last_ones() {
        totals().check(&LOAD, 133).unwrap();
        Totals { bytes: 133_000 + 200, ..totals() }.check(&LOAD, 133).unwrap();
    }

    #[test]
    fn a_run_with_an_error_is_no_result() {
        let faulty = [
            Totals { requests: 0, ..totals() },
            Totals { bytes: 132_999, ..totals() },
            Totals { bytes: 133_267, ..totals() },
            Totals { connect: 1, ..totals() },
            Totals { read: 1, ..totals() },
            Totals { write: 1, ..totals() },
            Totals { status: 1, ..totals() },
            Totals { timeout: 1, ..totals() },
        ];
        for totals in faulty {
            assert!(totals.check(&LOAD, 133).is_err(), "accepted {totals:?}");
        }
    }
}
