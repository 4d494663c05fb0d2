//! Arguments of `thruway bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::StyledStr;
use clap::{Parser as _, ValueEnum};
use thruway_bench::{Expected, Stages, Threshold, parse_pause, parse_percent, parse_rate, parse_time};
use thruway_net::tls::TlsVersion;

/// Send HTTP requests as fast as possible or at a fixed rate, and measure the response times
#[derive(clap::Args)]
#[command(after_help = verbatim(AFTER_HTTP))]
pub(crate) struct HttpArgs {
    /// URL to request: `http://HOST:PORT/PATH`, `https://HOST/PATH`, `http://unix:SOCKET:/PATH`, or `@FILE`.
    /// FILE contains one request per line, as a JSON object. You can pass several URLs of one server; each
    /// request then uses one of these URLs at random. `URL@3` gives a URL the weight 3: it gets three times
    /// as many requests as a URL without a weight
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) load: HttpLoadArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Options for the report.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct ReportArgs {
    /// Process id of the server. If you pass this option, the report contains the CPU time per request and
    /// the memory of the server process. Not necessary if the command starts the server
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Format of the report
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Also write the report with plots to this file, as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    /// Print the JSON Schema of `--output json` and exit, without sending requests
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// The option `--fail-if`.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct ThresholdArgs {
    /// Fail with exit code 3 if this condition is true, such as `p99 > 20ms`, `errors > 0.1%` or `rate < 1000`;
    /// may be repeated. A condition on one stage or step begins with its name: `stage 2: p99 > 20ms` or
    /// `step login: p99 > 20ms`. The metrics are `min`, `mean`, `p50`, `p75`, `p90`, `p95`, `p98`, `p99`, `p99.9`,
    /// `p99.99` and `max` (response times), `errors` (share of failed requests), `failed` (failed requests) and
    /// `rate` (expected responses per second)
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Threshold>,
}

/// Measure several servers in turn, and compare their results
#[derive(clap::Args)]
#[command(after_help = AFTER_COMPARE)]
pub(crate) struct CompareArgs {
    /// Servers to compare: URLs, or `"URL -- COMMAND"`, where COMMAND starts the server. The command compares
    /// the results of each further server with the results of the first server
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) load: HttpLoadArgs,
    /// Number of rounds. Each round measures every server once, in a random order. A comparison without
    /// `--baseline` needs at least 6 rounds to show that a server is faster or slower
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) rounds: u32,
    /// Compare with an earlier run instead of the first target. FILE contains the JSON output of `bench
    /// compare` or `bench http`. If the machine has changed since the earlier run, the change looks like a
    /// difference between the servers. To exclude such changes, compare both servers in one run
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Percentage by which a measured value may be worse than the baseline. The command reports a regression
    /// only if even the best value of a confidence interval is worse by more than this percentage
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, requires = "baseline", value_parser = parse_percent)]
    pub(crate) tolerance: f64,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    /// Format of the comparison
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Also write the report with plots to this file, as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the JSON Schema of `--output json` and exit, without sending requests
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// Find the highest request rate that a server can sustain
///
/// In each attempt, the command sends requests at a fixed rate (open loop) for `--duration`. The first rate
/// is `--rate`, or 1000 requests per second without `--rate`. An attempt fails if the server does not reach
/// the rate, if a request fails, or if the 99th percentile of the response times exceeds `--p99`. If two
/// attempts at a rate fail, the rate fails. The command doubles the rate until a rate fails. If the first
/// rate fails, the command halves the rate until a rate succeeds. After that, the command tries rates between
/// the highest sustained rate and the lowest failed rate, until these two rates differ by at most 5 %.
/// The conditions of `--fail-if` apply to the attempt with the highest sustained rate.
#[derive(clap::Args)]
pub(crate) struct RampArgs {
    /// URL to request, in the formats of `thruway bench http`
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    /// Maximum 99th percentile of the response times
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_time)]
    pub(crate) p99: Duration,
    #[command(flatten)]
    pub(crate) load: HttpLoadArgs,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
    /// Format of the result
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) output: Form,
    /// Print the JSON Schema of `--output json` and exit, without sending requests
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,
}

/// Measure a server with the command line options of `wrk`
#[derive(clap::Args)]
pub(crate) struct WrkArgs {
    /// URL to request
    pub(crate) url: String,
    /// Number of connections
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Number of threads of the load generator
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    /// Duration of each measurement, such as `500ms`, `10s` or `2m`; a number without a unit is in seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(crate) duration: Duration,
    /// Request header `Name: value`; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Maximum time for a request
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    pub(crate) timeout: Duration,
    /// Ignored: the report always contains percentiles
    #[arg(long)]
    pub(crate) latency: bool,
    /// Not supported: the command rejects scripts
    #[arg(short, long, value_name = "SCRIPT")]
    pub(crate) script: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
}

/// Measure a server with the command line options of `ab`
#[expect(clippy::struct_excessive_bools, reason = "each field is a flag of `ab`")]
#[derive(clap::Args)]
pub(crate) struct AbArgs {
    /// URL to request
    pub(crate) url: String,
    /// Number of requests
    #[arg(short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: u64,
    /// Number of connections
    #[arg(short = 'c', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,
    /// Duration of the load in seconds, instead of a number of requests
    #[arg(short = 't', value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) time_limit: Option<u64>,
    /// Maximum time for a request in seconds
    #[arg(short = 's', value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) timeout: u64,
    /// Reuse connections (HTTP keep-alive)
    #[arg(short = 'k')]
    pub(crate) is_persistent: bool,
    /// Request method
    #[arg(short = 'm', value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Request header `Name: value`; may be repeated
    #[arg(short = 'H', value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// File to send as the request body
    #[arg(short = 'p', value_name = "FILE")]
    pub(crate) content: Option<String>,
    /// File to send as the request body, with the method PUT
    #[arg(short = 'u', value_name = "FILE", conflicts_with = "content")]
    pub(crate) put: Option<String>,
    /// Media type of the request body
    #[arg(short = 'T', value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Send HEAD requests
    #[arg(short = 'i', conflicts_with_all = ["method", "content", "put"])]
    pub(crate) is_head: bool,
    /// Request cookie `NAME=VALUE`; may be repeated
    #[arg(short = 'C', value_name = "COOKIE")]
    pub(crate) cookie: Vec<String>,
    /// Show the progress in one line, and only on a terminal
    #[arg(short = 'q')]
    pub(crate) has_no_input: bool,
    /// Ignored: connection errors never end the load
    #[arg(short = 'r')]
    pub(crate) ignores_receive_errors: bool,
    /// Ignored: responses may have any length
    #[arg(short = 'l')]
    pub(crate) is_of_any_length: bool,
    #[command(flatten)]
    pub(crate) thresholds: ThresholdArgs,
}

/// Format of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Form {
    /// Tables as text
    #[default]
    Text,
    /// JSON; `--schema` prints the JSON Schema
    Json,
    /// CSV with a header line and one line for each load
    Csv,
    /// Markdown tables
    Markdown,
}

/// TLS version.
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

/// Load options that do not depend on the protocol.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
#[derive(Clone, clap::Args)]
pub(crate) struct LoadArgs {
    /// Number of connections
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Number of threads of the load generator
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Duration of each measurement, such as `500ms`, `10s` or `2m`; a number without a unit is in seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_time, conflicts_with = "requests")]
    pub(crate) duration: Duration,
    /// Number of requests to measure, instead of `--duration`
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Duration of the load before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_pause)]
    pub(crate) warm_up: Duration,
    /// Start this number of requests per second (open loop), even if earlier requests have not completed. The
    /// response time of a request begins at its scheduled start time
    #[arg(short, long, value_name = "N", value_parser = parse_rate, group = "schedule")]
    pub(crate) rate: Option<f64>,
    /// Change the load over time: a list of `DURATION:TARGET`, such as `30s:100,1m:500`. In each stage, the load
    /// changes linearly to the target, from 0 in the first stage. A target is a number of requests per second
    /// (open loop), or a number of connections such as `10c` (closed loop)
    #[arg(long, value_name = "STAGES", group = "schedule", conflicts_with_all = ["duration", "requests", "warm_up"])]
    pub(crate) stages: Option<Stages>,
    /// With `--rate` or `--stages`: start requests at random times, as independent clients do (Poisson process)
    #[arg(long, requires = "schedule")]
    pub(crate) poisson: bool,
    /// Seed of the random start times [default: a random seed; the report contains the seed]
    #[arg(long, value_name = "N", requires = "poisson")]
    pub(crate) seed: Option<u64>,
    /// Number of requests in flight on each connection (pipelining); not supported with MCP sessions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) pipeline: u16,
    /// Open a new connection for each request; not supported with MCP sessions
    #[arg(long = "no-keep-alive", conflicts_with = "pipeline")]
    pub(crate) is_not_persistent: bool,
    /// With `https`: trust the root certificates in this PEM file instead of the roots of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// With `https`: do not verify the certificate of the server
    #[arg(long = "insecure", conflicts_with = "ca")]
    pub(crate) is_insecure: bool,
    /// With `https`: use only this TLS version [default: the newest version that the server supports]
    #[arg(long = "tls", value_name = "VERSION", value_enum)]
    pub(crate) tls_version: Option<TlsVersionName>,
    /// With `https`: do not offer post-quantum key exchange. Use this option to compare two servers if only
    /// one of them supports post-quantum key exchange
    #[arg(long = "classical-key-exchange")]
    pub(crate) is_classical: bool,
    /// With `https`: do a full TLS handshake for each connection, without session resumption
    #[arg(long = "full-handshakes")]
    pub(crate) is_without_resumption: bool,
    /// Maximum time for a request. If each request has a separate MCP session, the time includes the start
    /// and the end of the session
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(crate) timeout: Duration,
    /// Request header `Name: value`; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Show the progress in one line. By default, a terminal shows a histogram of the response times
    #[arg(long = "no-live")]
    pub(crate) is_not_live: bool,
}

/// Options for the requests of an HTTP load.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct HttpLoadArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Request method [default: GET, or POST if there is a body]
    #[arg(short = 'X', long)]
    pub(crate) method: Option<String>,
    /// Request body: text, `@FILE`, or `-` for the standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) content: Option<String>,
    /// Expected status code of responses [default: any 2xx or 3xx]
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: Option<u16>,
    /// Expected length of response bodies in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) length: Option<u64>,
    /// Use HTTP/2. With `https`, the TLS handshake negotiates HTTP/2. With `http`, the connection uses HTTP/2
    /// without negotiation
    #[arg(long = "http2", conflicts_with_all = ["pipeline", "is_not_persistent"])]
    pub(crate) is_http2: bool,
    /// Number of requests in flight on each HTTP/2 connection
    #[arg(long, value_name = "N", default_value_t = 1, requires = "is_http2", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) streams: u16,
    /// Expected SHA-256 digest of response bodies
    #[arg(long, value_name = "DIGEST", value_parser = Expected::parse_digest)]
    pub(crate) sha256: Option<[u8; 32]>,
}

/// Returns the default values of the command line options.
impl Default for LoadArgs {
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            load: LoadArgs,
        }
        Defaults::parse_from([""]).load
    }
}

/// Prepares a help text that contains `{n}`. `clap` would replace `{n}` with a line end. To prevent this, the
/// function inserts an escape sequence after the brace. A terminal does not show the escape sequence, and
/// `clap` removes it from output to files.
pub(super) fn verbatim(text: &str) -> StyledStr {
    text.replace("{n}", "{\u{1b}[0mn}").into()
}

const AFTER_HTTP: &str = r#"Placeholders in paths, headers and bodies:
  {n}       Number of the request, from 0
  {random}  16 random hexadecimal digits, chosen once for each request

A line of @FILE:
  {"url": "http://127.0.0.1:8080/item/{n}", "method": "PUT", "content": "{random}", "weight": 2}
  A line may also have "headers" (an object), "status", "length" and "sha256".

Exit codes:
  0    All responses were as expected
  1    Some requests failed, or the server had stopped responding at the end of the load
  2    The arguments are invalid, or the server cannot be reached
  3    A condition of `--fail-if` is true
  130  Interrupted. The report contains the measurements so far. A second signal exits at once"#;

const AFTER_COMPARE: &str = r"Examples:
  thruway bench compare http://127.0.0.1:8080/a http://127.0.0.1:8080/b
  thruway bench compare 'http://127.0.0.1:8080/ -- thruway serve' \
      'http://127.0.0.1:8081/ -- ./other --port 8081'

Exit codes:
  0    The comparison is complete, and no value is worse than `--tolerance` allows
  1    A value is worse than `--tolerance` allows, requests failed, or a server exited. The report
       contains the rounds that all servers have completed
  2    The arguments or the baseline are invalid, or a server cannot be started or reached
  3    A condition of `--fail-if` is true for a round of a server
  130  Interrupted. The report contains the rounds that all servers have completed";
