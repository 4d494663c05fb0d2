//! The number of requests that a server has answered, as its own metrics say: no load generator is believed
//! because it is known.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Returns the number of requests that the server with this admin listener has answered with success so far.
pub(crate) fn requests(admin: SocketAddr) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(admin).context("the metrics cannot be read")?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics)?;
    Ok(answered(&metrics))
}

/// Sums the counts of all answers with success. There is no count before the first answer.
fn answered(metrics: &str) -> u64 {
    let counts =
        metrics.lines().filter(|line| line.starts_with("http_server_request_duration_seconds_count"));
    let successes = counts.filter(|line| line.contains("http_response_status_code=\"2"));
    successes.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Fails unless a load generator has counted the requests that the server answered, without the open ones at
/// the end: at most `open_max`.
pub(crate) fn check(counted: u64, answered: u64, open_max: u64) -> anyhow::Result<()> {
    ensure!(counted > 0, "it has counted no request");
    ensure!(counted <= answered, "it has counted {counted} requests, and the server {answered}");
    let uncounted = answered - counted;
    ensure!(uncounted <= open_max, "of {answered} requests it has not counted {uncounted}");
    Ok(())
}

const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_answers_with_success_is_read_and_compared() {
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
