//! What can be typed after `thruway bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::StyledStr;
use thruway_bench::{Expected, LoadOptions};
use thruway_net::tls::TlsVersion;

/// Load a server with HTTP requests
#[derive(clap::Args)]
#[command(after_help = verbatim(AFTER_HTTP))]
pub(crate) struct HttpArgs {
    /// What to load: `http://HOST:PORT/PATH`, `https://HOST/PATH`, `http://unix:SOCKET:/PATH`, or `@FILE`
    /// with a JSON object a line; several URLs of one server are chosen at random, `@3` behind one makes it
    /// three times as frequent
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) load: HttpLoadArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// What is told of a load, and where.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct ReportArgs {
    /// The server's process: its CPU time for each request and its memory are told, as those of a child
    /// always are
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// How the report is printed
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Write a page with plots too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the JSON Schema of `--output json` instead
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// Load several servers in turn and say which is faster
#[derive(clap::Args)]
#[command(after_help = AFTER_COMPARE)]
pub(crate) struct CompareArgs {
    /// What to compare: URLs, or `"URL -- COMMAND"` for servers to be started; the others are compared with
    /// the first
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) load: HttpLoadArgs,
    /// How often each is loaded, in an order of its own in each round; a verdict needs 6
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) rounds: u32,
    /// Compare with an earlier run instead of the first target: the JSON that `bench compare` or `bench http`
    /// has printed. What has changed on the machine since then shows up as a difference; to be certain, load
    /// both servers in one run
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// By how many percent a figure may be worse than in the baseline, besides the spread of its rounds
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, requires = "baseline", value_parser = parse_percent)]
    pub(crate) tolerance: f64,
    /// How the comparison is printed
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Write a page with plots too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the JSON Schema of `--output json` instead
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// Find the highest rate that a server holds, in open loops of one rate after the other
///
/// The rate is doubled from `--rate` on until it is not achieved, requests fail or the p99 of the response
/// times exceeds `--p99`, twice in a row; then what lies between is halved until it is known to 5 %. Each
/// rate is offered for `--duration`.
#[derive(clap::Args)]
pub(crate) struct RampArgs {
    /// What to load, as with `thruway bench http`
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    /// What 99 of 100 response times must stay within
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_time)]
    pub(crate) p99: Duration,
    #[command(flatten)]
    pub(crate) load: HttpLoadArgs,
    /// How the result is printed
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Print the JSON Schema of `--output json` instead
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// Load a server as a command line of `wrk` asks for
#[derive(clap::Args)]
pub(crate) struct WrkArgs {
    /// What to load
    pub(crate) url: String,
    /// Connections at the same time
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Threads of the load generator
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    /// How long: seconds, or with a unit
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_wrk_time)]
    pub(crate) duration: Duration,
    /// A header field, `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// How long a request may take
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_wrk_time)]
    pub(crate) timeout: Duration,
    /// Percentiles are always told
    #[arg(long)]
    pub(crate) latency: bool,
    /// Refused: scripts are not run
    #[arg(short, long, value_name = "SCRIPT")]
    pub(crate) script: Option<PathBuf>,
}

/// Load a server as a command line of `ab` asks for
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of `ab`")]
#[derive(clap::Args)]
pub(crate) struct AbArgs {
    /// What to load
    pub(crate) url: String,
    /// How many requests
    #[arg(short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: u64,
    /// Connections at the same time
    #[arg(short = 'c', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,
    /// Seconds, instead of a number of requests
    #[arg(short = 't', value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) time_limit: Option<u64>,
    /// Seconds that a request may take
    #[arg(short = 's', value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) timeout: u64,
    /// Use connections again
    #[arg(short = 'k')]
    pub(crate) is_persistent: bool,
    /// The method
    #[arg(short = 'm', value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// A header field, `Name: value`; may be given several times
    #[arg(short = 'H', value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The file whose content is sent
    #[arg(short = 'p', value_name = "FILE")]
    pub(crate) content: Option<String>,
    /// The same, with the method PUT
    #[arg(short = 'u', value_name = "FILE", conflicts_with = "content")]
    pub(crate) put: Option<String>,
    /// Its media type
    #[arg(short = 'T', value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Ask with the method HEAD
    #[arg(short = 'i', conflicts_with_all = ["method", "content", "put"])]
    pub(crate) is_head: bool,
    /// A cookie, `NAME=VALUE`; may be given several times
    #[arg(short = 'C', value_name = "COOKIE")]
    pub(crate) cookie: Vec<String>,
    /// How it goes is shown on a terminal only
    #[arg(short = 'q')]
    pub(crate) is_quiet: bool,
    /// Errors of connections never end it
    #[arg(short = 'r')]
    pub(crate) goes_on: bool,
    /// Answers may always be of any length
    #[arg(short = 'l')]
    pub(crate) is_of_any_length: bool,
}

/// How a report is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Form {
    /// Tables for people
    #[default]
    Text,
    /// JSON; its schema is printed by `--schema`
    Json,
    /// A line of names, a line for each load
    Csv,
    /// Tables in Markdown
    Markdown,
}

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TlsVersionName {
    /// TLS 1.2
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3
    #[value(name = "1.3")]
    Tls13,
}

impl From<TlsVersionName> for TlsVersion {
    fn from(name: TlsVersionName) -> Self {
        match name {
            TlsVersionName::Tls12 => Self::Tls12,
            TlsVersionName::Tls13 => Self::Tls13,
        }
    }
}

/// How servers are loaded, whatever they are asked.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag by itself")]
#[derive(Clone, clap::Args)]
pub(crate) struct LoadArgs {
    /// Connections at the same time
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Threads of the load generator
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// How long is measured, as `500ms`, `10s` or `2m`
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_time, conflicts_with = "requests")]
    pub(crate) duration: Duration,
    /// Measure so many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Load so long before it is measured
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_pause)]
    pub(crate) warm_up: Duration,
    /// An open loop: start so many requests a second, whatever becomes of them; response times count from
    /// when they were meant to start
    #[arg(short, long, value_name = "N", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Let the requests of an open loop come at random, as those of many clients do
    #[arg(long, requires = "rate")]
    pub(crate) poisson: bool,
    /// Let them come at the times that this number gives [default: another one each time; reports tell it]
    #[arg(long, value_name = "N", requires = "poisson")]
    pub(crate) seed: Option<u64>,
    /// Send so many requests on a connection without waiting for answers; not where there are sessions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) pipeline: u16,
    /// Open a connection for each request; not where there are sessions
    #[arg(long = "no-keep-alive", conflicts_with = "pipeline")]
    pub(crate) is_not_persistent: bool,
    /// With `https`: trust those who have issued these certificates, in PEM, instead of those whom this
    /// system trusts
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// With `https`: load whoever answers, without asking who that is
    #[arg(long = "insecure", conflicts_with = "ca")]
    pub(crate) is_insecure: bool,
    /// With `https`: speak this version only [default: what both know best]
    #[arg(long = "tls", value_name = "VERSION", value_enum)]
    pub(crate) tls_version: Option<TlsVersionName>,
    /// With `https`: offer no key exchange that withstands quantum computers, to compare servers of which
    /// some have none
    #[arg(long = "classical-key-exchange")]
    pub(crate) is_classical: bool,
    /// With `https`: do a full handshake for each connection, instead of resuming sessions
    #[arg(long = "full-handshakes")]
    pub(crate) is_without_resumption: bool,
    /// How long a request may take, with the session around it if it has one of its own
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(crate) timeout: Duration,
    /// A header field, `Name: value`, as `Authorization`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
}

/// What HTTP servers are asked, and how.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct HttpLoadArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The method [default: GET, or POST with content]
    #[arg(short = 'X', long)]
    pub(crate) method: Option<String>,
    /// The content: text, `@FILE`, or `-` for the standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) content: Option<String>,
    /// The status that answers must have [default: any of 2xx and 3xx]
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: Option<u16>,
    /// How many octets of content answers must have
    #[arg(long, value_name = "OCTETS")]
    pub(crate) length: Option<u64>,
    /// Speak HTTP/2: as agreed upon with `https`, without asking with `http`
    #[arg(long = "http2", conflicts_with_all = ["pipeline", "is_not_persistent"])]
    pub(crate) is_http2: bool,
    /// Requests on a connection at the same time, each on a stream of its own
    #[arg(long, value_name = "N", default_value_t = 1, requires = "is_http2", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) streams: u16,
    /// The SHA-256 digest that the content of answers must have
    #[arg(long, value_name = "DIGEST", value_parser = Expected::parse_digest)]
    pub(crate) sha256: Option<[u8; 32]>,
}

/// Whoever asks for nothing in particular.
impl Default for LoadArgs {
    fn default() -> Self {
        Self {
            connections: 16,
            workers: 1,
            duration: Duration::from_secs(10),
            requests: None,
            warm_up: Duration::ZERO,
            rate: None,
            poisson: false,
            seed: None,
            pipeline: 1,
            is_not_persistent: false,
            ca: None,
            is_insecure: false,
            tls_version: None,
            is_classical: false,
            is_without_resumption: false,
            timeout: Duration::from_secs(10),
            header: Vec::new(),
        }
    }
}

/// Nothing, or more.
fn parse_pause(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time > LoadOptions::DURATION_MAX => Err("it must be less than a year".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// More than nothing.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("it must be more than 0".to_owned()),
        _ => parse_pause(text),
    }
}

/// The same, of seconds where no unit is given: `30`, `2s` and `1m`, as with wrk.
fn parse_wrk_time(text: &str) -> Result<Duration, String> {
    if text.bytes().all(|octet| octet.is_ascii_digit()) {
        parse_time(&format!("{text}s"))
    } else {
        parse_time(text)
    }
}

fn parse_rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e9).contains(rate));
    rate.ok_or("a rate is a number of requests a second, between 0.001 and 1000000000")
}

fn parse_percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or("a tolerance is a percentage between 0 and 100")
}

/// Returns `text` so that `clap` prints `{n}` instead of a line end, for which it stands in help. The
/// sequence between brace and letter changes nothing on a terminal, and `clap` removes it elsewhere.
pub(super) fn verbatim(text: &str) -> StyledStr {
    text.replace("{n}", "{\u{1b}[0mn}").into()
}

const AFTER_HTTP: &str = r#"Placeholders in paths, header fields and content:
  {n}       The number of the request, from 0
  {random}  16 hexadecimal digits, the same within a request

A line of @FILE:
  {"url": "http://127.0.0.1:8080/item/{n}", "method": "PUT", "content": "{random}", "weight": 2}
  It may also have "headers" (an object), "status", "length" and "sha256".

Exit codes:
  0    Every request was answered as expected
  1    Some were not, or the server had stopped to answer when the load ended
  2    The arguments cannot be used, or the server cannot be reached
  130  It was interrupted; what was measured is reported. At a second signal it ends at once"#;

const AFTER_COMPARE: &str = r"Examples:
  thruway bench compare http://127.0.0.1:8080/a http://127.0.0.1:8080/b
  thruway bench compare 'http://127.0.0.1:8080/ -- thruway serve' 'http://127.0.0.1:8081/ -- ./other --port 8081'

Exit codes:
  0    It was compared, and nothing is worse than the baseline allows
  1    Something is, requests failed, or a server has gone away; the rounds that were complete are reported
  2    The arguments or the baseline cannot be used, or a server cannot be started or reached
  130  It was interrupted; the rounds that were complete are reported";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_by_wrk() {
        for (text, seconds) in [("30", 30), ("2s", 2), ("1m", 60), ("2h", 7200)] {
            assert_eq!(parse_wrk_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "0", "-1", "s", "2x", "99999999999999999999"] {
            assert!(parse_wrk_time(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("30").is_err(), "elsewhere a number without a unit may mean anything");
    }
}
