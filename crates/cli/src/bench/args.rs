//! What can be typed after `thruway bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use thruway_bench::Expected;

/// Load servers and measure what they do
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    Http(HttpArgs),
    Compare(CompareArgs),
}

/// Load a server with HTTP requests
#[derive(clap::Args)]
#[command(after_help = AFTER_HTTP)]
pub(crate) struct HttpArgs {
    /// What to load: `http://HOST:PORT/PATH`, `http://unix:SOCKET:/PATH`, or `@FILE` with a JSON object a line; several URLs of one
    /// server are chosen at random, `@3` behind one makes it three times as frequent
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The server's process: its CPU time for each request and its memory are told
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
    /// What to compare: URLs, or `"URL -- COMMAND"` for servers to be started; the others are compared with the first
    #[arg(value_name = "URL", required_unless_present = "schema")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// How often each is loaded, in an order of its own in each round
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) rounds: u32,
    /// Compare with what `--output json` has printed before, instead of with the first
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// How much worse than the baseline is still good, in percent
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

/// How servers are loaded.
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
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub(crate) warm_up: Duration,
    /// An open loop: start so many requests a second, whatever becomes of them; response times count from when they
    /// were meant to start
    #[arg(short, long, value_name = "N", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Let the requests of an open loop come at random, as those of many clients do
    #[arg(long, requires = "rate")]
    pub(crate) poisson: bool,
    /// Send so many requests on a connection without waiting for answers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) pipeline: u16,
    /// Open a connection for each request
    #[arg(long = "no-keep-alive", conflicts_with = "pipeline")]
    pub(crate) is_not_persistent: bool,
    /// How long a request may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub(crate) timeout: Duration,
    /// The method [default: GET, or POST with content]
    #[arg(short = 'X', long)]
    pub(crate) method: Option<String>,
    /// A header field, `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The content: text, `@FILE`, or `-` for the standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) content: Option<String>,
    /// The status that answers must have [default: any of 2xx and 3xx]
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) status: Option<u16>,
    /// How many octets of content answers must have
    #[arg(long, value_name = "OCTETS")]
    pub(crate) length: Option<u64>,
    /// The SHA-256 digest that the content of answers must have
    #[arg(long, value_name = "DIGEST", value_parser = Expected::parse_digest)]
    pub(crate) sha256: Option<[u8; 32]>,
}

impl LoadArgs {
    /// What is expected of answers.
    pub(crate) const fn expected(&self) -> Expected {
        Expected { status: self.status, content_bytes: self.length, sha256: self.sha256 }
    }
}

/// More than nothing.
fn parse_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("it must be more than 0".to_owned()),
        Ok(time) if time > TIME_MAX => Err("it must be less than a year".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
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

const TIME_MAX: Duration = Duration::from_hours(365 * 24);

const AFTER_HTTP: &str = r#"Placeholders in paths, header fields and content:
  {n}       The number of the request, from 0
  {random}  16 hexadecimal digits, the same within a request

A line of @FILE:
  {"url": "http://127.0.0.1:8080/item/{n}", "method": "PUT", "content": "{random}", "weight": 2}
  It may also have "headers" (an object), "status", "length" and "sha256".

Exit codes:
  0    Every request was answered as expected
  1    Some were not
  2    The arguments cannot be used, or the server cannot be reached
  130  It was interrupted; what was measured is reported. At a second signal it ends at once"#;

const AFTER_COMPARE: &str = r"Examples:
  thruway bench compare http://127.0.0.1:8080/a http://127.0.0.1:8080/b
  thruway bench compare 'http://127.0.0.1:8080/ -- thruway serve' 'http://127.0.0.1:8081/ -- ./other --port 8081'

Exit codes:
  0    It was compared, and nothing is worse than the baseline allows
  1    Something is, or requests failed
  2    The arguments cannot be used, or a server cannot be started or reached
  130  It was interrupted";
