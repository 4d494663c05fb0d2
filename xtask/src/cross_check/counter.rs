//! How many requests the server has answered, as its metrics say.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::stop::Stop;

/// The admin listener of a server.
pub(super) struct Counter {
    authority: String,
}

impl Counter {
    /// That of the server that prints into `log`.
    ///
    /// # Errors
    /// It does not say where that is.
    pub(super) fn find(log: &Path, stop: &Stop) -> anyhow::Result<Self> {
        let authority =
            stop.wait("the admin listener", LIMIT, || Ok(authority(&fs::read_to_string(log)?)))?;
        Ok(Self { authority })
    }

    /// How many were answered with success so far.
    ///
    /// # Errors
    /// The server does not say.
    pub(super) fn requests(&self) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.authority)?;
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics)?;
        answered(&metrics).context("the metrics have no count of requests")
    }
}

fn authority(printed: &str) -> Option<String> {
    let mut lines = printed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.find_map(|line| line.strip_prefix("admin listener on http://")).map(str::to_owned)
}

fn answered(metrics: &str) -> Option<u64> {
    let mut lines = metrics.lines().filter(|line| line.starts_with("thruway_route_requests_total"));
    lines.find(|line| line.contains("class=\"2xx\""))?.rsplit(' ').next()?.parse().ok()
}

const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_prints_is_read() {
        assert_eq!(authority("listening on http://a:1\nadmin listener on http://b:2\n").unwrap(), "b:2");
        assert_eq!(authority("admin listener on http://b:2"), None);
        let metrics = "# TYPE a counter\nthruway_route_requests_total{route=\"/a\",class=\"1xx\"} 0\n\
                       thruway_route_requests_total{route=\"/a\",class=\"2xx\"} 17764\n";
        assert_eq!(answered(metrics), Some(17764));
    }
}
