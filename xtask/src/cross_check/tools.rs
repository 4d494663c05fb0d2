//! The tools that load, each with what it prints.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child;
use crate::stop::Stop;

/// What is asked of each.
pub(super) struct Setting<'a> {
    pub(super) url: &'a str,
    /// Streams on each connection; HTTP/1.1 is spoken where there are none.
    pub(super) streams: Option<u32>,
    pub(super) seconds: u32,
    pub(super) connections: u32,
}

impl Setting<'_> {
    /// Requests that may be on their way at the end.
    pub(super) fn under_way_max(&self) -> u32 {
        self.connections * self.streams.unwrap_or(1)
    }
}

/// What a tool says that it did.
#[derive(PartialEq, Debug)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) rate: f64,
}

pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) is_ours: bool,
    /// Whether it speaks HTTP/2.
    pub(super) has_http2: bool,
    arguments: fn(&Setting<'_>) -> Vec<String>,
    read: fn(&str) -> anyhow::Result<Counted>,
}

/// Ours first: the others are compared with it.
pub(super) const TOOLS: &[Tool] = &[
    Tool { name: "thruway", is_ours: true, has_http2: true, arguments: of_thruway, read: read_thruway },
    Tool { name: "wrk", is_ours: false, has_http2: false, arguments: of_wrk, read: read_wrk },
    Tool { name: "ab", is_ours: false, has_http2: false, arguments: of_ab, read: read_ab },
    Tool { name: "h2load", is_ours: false, has_http2: true, arguments: of_h2load, read: read_h2load },
];

impl Tool {
    /// Loads the server once.
    ///
    /// # Errors
    /// It failed, or a request did.
    pub(super) fn run(&self, program: &Path, setting: &Setting<'_>, stop: &Stop) -> anyhow::Result<Counted> {
        let mut command = Command::new(if self.is_ours { program } else { Path::new(self.name) });
        command.args((self.arguments)(setting));
        let limit = EXTRA + Duration::from_secs(setting.seconds.into());
        let printed = child::output_of(self.name, command, limit, stop)?;
        (self.read)(&printed).with_context(|| format!("`{}` printed\n{printed}", self.name))
    }
}

fn of_thruway(setting: &Setting<'_>) -> Vec<String> {
    let (duration, connections) = (format!("{}s", setting.seconds), setting.connections.to_string());
    let load =
        ["bench", "http", setting.url, "-d", &duration, "-c", &connections, "--output", "json", "--insecure"];
    let streams = setting.streams.map(|streams| ["--http2".to_owned(), format!("--streams={streams}")]);
    load.map(str::to_owned).into_iter().chain(streams.into_iter().flatten()).collect()
}

fn read_thruway(printed: &str) -> anyhow::Result<Counted> {
    let report: serde_json::Value = serde_json::from_str(printed)?;
    ensure!(report["requests"]["failed"] == 0, "requests failed");
    let requests = report["requests"]["answered"].as_u64().context("no count of requests")?;
    Ok(Counted { requests, rate: report["achieved_rate"].as_f64().context("no rate")? })
}

fn of_wrk(setting: &Setting<'_>) -> Vec<String> {
    let Setting { url, seconds, connections, .. } = setting;
    vec!["-t1".to_owned(), format!("-c{connections}"), format!("-d{seconds}s"), (*url).to_owned()]
}

fn read_wrk(printed: &str) -> anyhow::Result<Counted> {
    for complaint in ["Socket errors", "Non-2xx"] {
        ensure!(!printed.contains(complaint), "{complaint}");
    }
    let line = printed.lines().find(|line| line.contains(" requests in ")).context("no count of requests")?;
    let requests = line.split_whitespace().next().context("no count of requests")?.parse()?;
    Ok(Counted { requests, rate: number(printed, "Requests/sec:")? })
}

fn of_ab(setting: &Setting<'_>) -> Vec<String> {
    let (seconds, connections) = (setting.seconds.to_string(), setting.connections.to_string());
    ["-q", "-k", "-c", &connections, "-t", &seconds, "-n", "100000000", setting.url].map(str::to_owned).into()
}

fn read_ab(printed: &str) -> anyhow::Result<Counted> {
    ensure!(!printed.contains("Non-2xx"), "not every status was 200");
    let failed: u64 = number(printed, "Failed requests:")?;
    ensure!(failed == 0, "{failed} requests failed");
    Ok(Counted {
        requests: number(printed, "Complete requests:")?,
        rate: number(printed, "Requests per second:")?,
    })
}

fn of_h2load(setting: &Setting<'_>) -> Vec<String> {
    let (seconds, connections) = (setting.seconds.to_string(), setting.connections.to_string());
    let version = setting.streams.map_or_else(|| "--h1".to_owned(), |streams| format!("-m{streams}"));
    [&version, "-c", &connections, "-D", &seconds, setting.url].map(str::to_owned).into()
}

fn read_h2load(printed: &str) -> anyhow::Result<Counted> {
    let line = printed.lines().find(|line| line.starts_with("requests:")).context("no count of requests")?;
    ensure!(line.contains(" 0 failed, 0 errored, 0 timeout"), "requests failed");
    let rate = printed.lines().find_map(|line| line.strip_suffix("B/s")?.split(", ").nth(1));
    let rate = rate.and_then(|rate| rate.strip_suffix(" req/s")).context("no rate")?;
    Ok(Counted { requests: number(line, "requests:")?, rate: rate.parse()? })
}

/// The number behind `name`, at the beginning of a line.
fn number<N: std::str::FromStr>(printed: &str, name: &str) -> anyhow::Result<N> {
    let rest = printed.lines().find_map(|line| line.strip_prefix(name));
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("there is no number behind `{name}`"))
}

/// What a tool may take beyond its time.
const EXTRA: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_asked_for_of_those_that_know_them() {
        let mut setting = Setting { url: "https://a/", streams: Some(8), seconds: 1, connections: 2 };
        assert!(of_thruway(&setting).ends_with(&["--http2".to_owned(), "--streams=8".to_owned()]));
        assert_eq!(of_h2load(&setting), ["-m8", "-c", "2", "-D", "1", "https://a/"]);
        assert_eq!(setting.under_way_max(), 16);
        setting.streams = None;
        assert!(!of_thruway(&setting).contains(&"--http2".to_owned()));
        assert_eq!((of_h2load(&setting)[0].as_str(), setting.under_way_max()), ("--h1", 2));
    }

    #[test]
    fn each_report_is_read_and_each_failure_found() {
        let counted = Counted { requests: 12, rate: 3.5 };
        for (read, report, failing) in [
            (
                read_thruway as fn(&str) -> anyhow::Result<Counted>,
                r#"{"requests": {"answered": 12, "failed": 0}, "achieved_rate": 3.5}"#,
                r#"{"requests": {"answered": 12, "failed": 1}, "achieved_rate": 3.5}"#,
            ),
            (
                read_wrk,
                "  12 requests in 1.00s, 398.94KB read\nRequests/sec:   3.5\n",
                "  12 requests in 1.00s, 1KB read\n  Non-2xx or 3xx responses: 1\nRequests/sec:   3.5\n",
            ),
            (
                read_ab,
                "Complete requests:      12\nFailed requests:        0\nRequests per second:    3.5 [#/sec] (mean)\n",
                "Complete requests:      12\nFailed requests:        1\nRequests per second:    3.5 [#/sec] (mean)\n",
            ),
            (
                read_h2load,
                "finished in 1.00s, 3.5 req/s, 1.76MB/s\nrequests: 12 total, 13 started, 12 done, 12 succeeded, 0 failed, 0 errored, 0 timeout\n",
                "finished in 1.00s, 3.5 req/s, 1.76MB/s\nrequests: 12 total, 13 started, 12 done, 11 succeeded, 1 failed, 0 errored, 0 timeout\n",
            ),
        ] {
            assert_eq!(read(report).unwrap(), counted);
            assert!(read(failing).is_err(), "{failing}");
            assert!(read("").is_err());
        }
    }
}
