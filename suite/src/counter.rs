//! Reads the number of requests from the metrics of a server, to check the counts of load generators.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Returns the number of successful responses that a server has sent so far. `admin` is the address of its
/// admin listener.
pub(crate) fn requests(admin: SocketAddr) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(admin).context("cannot read the metrics")?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics)?;
    Ok(answered(&metrics))
}

/// Returns the sum of the counts of all successful responses. The metric does not exist before the first
/// response.
fn answered(metrics: &str) -> u64 {
    let counts =
        metrics.lines().filter(|line| line.starts_with("http_server_request_duration_seconds_count"));
    let successes = counts.filter(|line| line.contains("http_response_status_code=\"2"));
    successes.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Compares the count of a load generator with the count of the server. Both counts may differ by up to
/// `open_max`, the number of requests in flight at the end.
pub(crate) fn check(counted: u64, answered: u64, open_max: u64) -> anyhow::Result<()> {
    ensure!(counted > 0, "the load generator counted no requests");
    ensure!(
        counted <= answered,
        "the load generator counted {counted} requests, but the server only {answered}"
    );
    let uncounted = answered - counted;
    ensure!(uncounted <= open_max, "the load generator missed {uncounted} of {answered} requests");
    Ok(())
}

const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successful_responses_are_counted_and_compared() {
        let count = |status, count: u64| {
            format!(
                "http_server_request_duration_seconds_count{{http_route=\"/a\",\
                 http_response_status_code=\"{status}\"}} {count}\n"
            )
        };
        let metrics = format!("# TYPE a counter\n{}{}{}", count(200, 17_760), count(204, 4), count(404, 1));
        assert_eq!((answered(&metrics), answered("")), (17_764, 0));
        for (counted, is_right) in [(100, true), (96, true), (95, false), (101, false), (0, false)] {
            assert_eq!(check(counted, 100, 4).is_ok(), is_right, "{counted}");
        }
        assert!(check(0, 0, 4).is_err());
    }
}
