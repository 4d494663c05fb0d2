//! Loads a server with `ab` and reads its report.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::metric::{Metric, Sample};
use super::server::CLIENT_CORE;
use crate::child;
use crate::stop::Stop;

/// A run takes seconds; a connection that hangs would keep it for ever.
const LIMIT: Duration = Duration::from_secs(90);

/// How a server is loaded.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) requests: u32,
    pub(super) connections: u32,
    /// With `-k`, all requests of a connection follow each other on it; without, each has its own.
    pub(super) persistent: bool,
}

/// What `ab` reports of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Totals {
    pub(super) requests: u64,
    failed: u64,
    not_2xx: u64,
    /// Requests after which the connection persisted.
    persisted: u64,
    document_bytes: u64,
    requests_per_second: f64,
    p50: f64,
    p98: f64,
    p99: f64,
    longest: f64,
}

/// The arguments for a load; the same on paper and in the run.
pub(super) fn arguments(load: Load, address: &str, percentiles: &str) -> Vec<String> {
    let mut arguments = vec!["-q".to_owned()];
    if load.persistent {
        arguments.push("-k".to_owned());
    }
    let (requests, connections) = (load.requests.to_string(), load.connections.to_string());
    let url = format!("http://{address}/plaintext");
    arguments.extend(["-n", &requests, "-c", &connections, "-e", percentiles, &url].map(str::to_owned));
    arguments
}

/// Runs a load.
///
/// # Errors
/// When `ab` fails, as it does when a connection breaks.
pub(super) fn run(load: Load, address: SocketAddr, stop: &Stop) -> anyhow::Result<Totals> {
    let percentiles = tempfile::NamedTempFile::new()?;
    let path = percentiles.path().to_str().context("the temporary directory's path is not UTF-8")?;
    let mut command = child::pinned(&CLIENT_CORE.to_string(), Path::new("ab"));
    command.args(arguments(load, &address.to_string(), path));
    let printed = child::output_of("ab", command, LIMIT, stop)?;
    parse(&printed, &std::fs::read_to_string(path)?).with_context(|| format!("`ab` printed\n{printed}"))
}

/// Reads the report, and the percentiles from the file of `-e`: the report rounds them to milliseconds.
fn parse(printed: &str, percentiles: &str) -> anyhow::Result<Totals> {
    Ok(Totals {
        requests: number(printed, "Complete requests:")?,
        failed: number(printed, "Failed requests:")?,
        not_2xx: number(printed, "Non-2xx responses:").unwrap_or(0),
        persisted: number(printed, "Keep-Alive requests:").unwrap_or(0),
        document_bytes: number(printed, "Document Length:")?,
        requests_per_second: number(printed, "Requests per second:")?,
        p50: percentile(percentiles, 50)?,
        p98: percentile(percentiles, 98)?,
        p99: percentile(percentiles, 99)?,
        longest: percentile(percentiles, 100)?,
    })
}

/// The number that follows `label`.
fn number<T: std::str::FromStr>(printed: &str, label: &str) -> anyhow::Result<T> {
    let rest = printed.lines().find_map(|line| line.trim_start().strip_prefix(label));
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("there is no `{label}`"))
}

/// A line such as `99,29.123` in milliseconds, as microseconds.
fn percentile(percentiles: &str, wanted: u32) -> anyhow::Result<f64> {
    let lines = percentiles.lines().filter_map(|line| line.split_once(','));
    let value = lines
        .filter(|(percent, _)| *percent == wanted.to_string())
        .find_map(|(_, ms)| ms.parse::<f64>().ok());
    Ok(1000.0 * value.with_context(|| format!("there is no percentile {wanted}"))?)
}

impl Totals {
    /// Makes sure that the run is a result: every request answered, in full, on a connection that persisted when asked.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn check(&self, load: Load, content_bytes: u64) -> anyhow::Result<()> {
        let Self { requests, failed, not_2xx, persisted, document_bytes, .. } = *self;
        ensure!(
            requests == u64::from(load.requests),
            "{requests} of {} requests were completed",
            load.requests
        );
        ensure!(failed == 0, "{failed} requests failed");
        ensure!(not_2xx == 0, "{not_2xx} answers were not 2xx");
        ensure!(document_bytes == content_bytes, "wrong length: the content has {document_bytes} octets");
        ensure!(
            !load.persistent || persisted == requests,
            "persistence was given up after {persisted} of {requests} requests"
        );
        Ok(())
    }

    /// The figures of the run.
    pub(super) fn figures(&self) -> Sample {
        Sample::from([
            (Metric::RequestsPerSecond, self.requests_per_second),
            (Metric::P50, self.p50),
            (Metric::P98, self.p98),
            (Metric::P99, self.p99),
            (Metric::Longest, self.longest),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, Metric, Totals, parse};

    const LOAD: Load = Load { requests: 5000, connections: 100, persistent: true };

    /// From a run of `ab` 2.3 with `-k`.
    const PRINTED: &str = "\
Document Path:          /plaintext
Document Length:        13 bytes

Concurrency Level:      100
Time taken for tests:   0.028 seconds
Complete requests:      5000
Failed requests:        0
Keep-Alive requests:    5000
Total transferred:      805000 bytes
HTML transferred:       65000 bytes
Requests per second:    181264.50 [#/sec] (mean)
Time per request:       0.552 [ms] (mean)

Percentage of the requests served within a certain time (ms)
  50%      0
  99%      2
 100%      3 (longest request)
";

    const PERCENTILES: &str =
        "Percentage served,Time in ms\n0,0.245\n50,0.475\n98,1.466\n99,2.035\n100,2.886\n";

    fn totals() -> Totals {
        parse(PRINTED, PERCENTILES).unwrap()
    }

    #[test]
    fn the_report_and_the_percentiles_are_read() {
        let figures = totals().figures();
        assert_eq!(totals().requests, 5000);
        assert!((figures[&Metric::RequestsPerSecond] - 181_264.5).abs() < 1e-6);
        assert!((figures[&Metric::P99] - 2035.0).abs() < 1e-6);
        assert!((figures[&Metric::Longest] - 2886.0).abs() < 1e-6);
    }

    #[test]
    fn failures_and_other_statuses_are_read() {
        let printed = PRINTED.replace(
            "Failed requests:        0",
            "Failed requests:        80\n   (Connect: 0, Receive: 0, Length: 80, Exceptions: 0)\nNon-2xx responses:      7",
        );
        let totals = parse(&printed, PERCENTILES).unwrap();
        assert_eq!((totals.failed, totals.not_2xx), (80, 7));
    }

    #[test]
    fn a_report_without_a_line_is_refused() {
        assert!(parse("apr_socket_recv: Connection reset by peer (104)\n", PERCENTILES).is_err());
        assert!(parse(PRINTED, "").is_err());
    }

    #[test]
    fn a_run_in_which_all_is_well_is_a_result() {
        totals().check(LOAD, 13).unwrap();
        // Without `-k` no connection is to persist.
        Totals { persisted: 0, ..totals() }.check(Load { persistent: false, ..LOAD }, 13).unwrap();
    }

    #[test]
    fn a_run_with_an_error_is_no_result() {
        let faulty = [
            Totals { requests: 4999, ..totals() },
            Totals { failed: 1, ..totals() },
            Totals { not_2xx: 1, ..totals() },
            Totals { persisted: 4999, ..totals() },
            Totals { document_bytes: 14, ..totals() },
        ];
        for totals in faulty {
            assert!(totals.check(LOAD, 13).is_err(), "accepted {totals:?}");
        }
    }
}
