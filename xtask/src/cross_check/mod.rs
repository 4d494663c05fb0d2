//! `cargo xtask cross-check`: `thruway bench http` beside wrk, ab and h2load, which load the same server in turn: over HTTP/1.1 and HTTP/2, with
//! TLS and without.
//!
//! What each says that it did is held against what the server says, so that nobody is believed for being known: that must agree on any machine. The rates depend on
//! what a request costs each of them, and are only told.

// who loads
mod tools;

// what the server says
mod counter;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::program::find_on_path;
use crate::program::{self, Profile};
use crate::server::Server;
use crate::stop::Stop;
use counter::Counter;
use thruway_testkit::Authority;
use tools::{Counted, Setting, TOOLS, Tool};

/// Options of `cargo xtask cross-check`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The `thruway` that loads and is loaded; built unless given.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How often each has its turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Connections at the same time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Streams on each of them, over HTTP/2.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    streams: u32,
}

/// The addresses of the server.
struct Urls {
    plain: String,
    secured: String,
}

/// What a tool has shown in all of its turns.
struct Turns {
    tool: &'static Tool,
    rates: Vec<f64>,
    /// Requests that the server has answered and the tool has not counted.
    uncounted: Vec<u64>,
}

/// Lets each tool load the server in turn, and prints what they counted.
///
/// # Errors
/// A tool failed, or counts other requests than the server does.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(LIMIT)?;
    let program = match &options.program {
        Some(program) => fs::canonicalize(program)?,
        None => program::build(Profile::Dist, &stop)?,
    };
    let directory = tempfile::Builder::new().prefix("thruway-cross-check-").tempdir()?;
    let config = directory.path().join("config.toml");
    let authority = Authority::new();
    let files = authority.issue("server", &["localhost"]);
    let secured = [("{chain}", files.chain), ("{key}", files.key)];
    let text = secured
        .iter()
        .fold(CONFIG.to_owned(), |text, (place, path)| text.replace(place, &path.to_string_lossy()));
    fs::write(&config, text)?;
    let log = directory.path().join("server.log");
    let server = Server::start(&program, &["serve", &config.to_string_lossy()], &log, &stop)?;
    let counter = Counter::find(&log, &stop)?;
    let urls = Urls { plain: server.url(), secured: secured_url(&fs::read_to_string(&log)?)? };
    for tool in TOOLS.iter().filter(|tool| !is_there(tool)) {
        println!("left out: `{}` is not installed", tool.name);
    }
    for (name, origin, streams) in [
        ("HTTP/1.1", &urls.plain, None),
        ("HTTP/1.1 in TLS", &urls.secured, None),
        ("HTTP/2", &urls.plain, Some(options.streams)),
        ("HTTP/2 in TLS", &urls.secured, Some(options.streams)),
    ] {
        let url = format!("{origin}/plaintext");
        let (seconds, connections) = (options.seconds, options.connections);
        let setting = Setting { url: &url, streams, seconds, connections };
        let mut turns = present_turns(streams.is_some());
        for round in 0..options.rounds as usize {
            // Who comes first has another machine than who comes last.
            for place in 0..turns.len() {
                let length = turns.len();
                let turn = &mut turns[(round + place) % length];
                one_turn(turn, &program, &setting, &counter, &stop).context(name)?;
            }
        }
        println!("{name}");
        print(&turns);
    }
    server.end(&stop)?;
    Ok(())
}

/// Where the server listens with TLS, as it has printed.
fn secured_url(printed: &str) -> anyhow::Result<String> {
    let mut lines = printed.lines().filter_map(|line| line.strip_prefix("listening on "));
    let url = lines.find(|address| address.starts_with("https://"));
    url.map(str::to_owned).context("the server does not say where it listens with TLS")
}

fn is_there(tool: &Tool) -> bool {
    tool.is_ours || find_on_path(tool.name).is_some()
}

/// A turn for each tool that is installed, and speaks what is to be spoken.
fn present_turns(is_http2: bool) -> Vec<Turns> {
    let takes_part = |tool: &&Tool| is_there(tool) && (tool.has_http2 || !is_http2);
    let turns = |tool| Turns { tool, rates: Vec::new(), uncounted: Vec::new() };
    TOOLS.iter().filter(takes_part).map(turns).collect()
}

fn one_turn(
    turns: &mut Turns,
    program: &Path,
    setting: &Setting<'_>,
    counter: &Counter,
    stop: &Stop,
) -> anyhow::Result<()> {
    let before = counter.requests()?;
    let Counted { requests, rate } = turns.tool.run(program, setting, stop)?;
    let answered = counter.requests()? - before;
    let uncounted = uncounted(requests, answered, setting.under_way_max()).context(turns.tool.name)?;
    turns.rates.push(rate);
    turns.uncounted.push(uncounted);
    Ok(())
}

/// How many requests were answered and not counted: at most those that were on their way at the end.
fn uncounted(requests: u64, answered: u64, under_way_max: u32) -> anyhow::Result<u64> {
    ensure!(requests > 0, "it has counted no request");
    let uncounted = answered.checked_sub(requests);
    let uncounted = uncounted
        .with_context(|| format!("it has counted {requests} requests, and the server {answered}"))?;
    ensure!(uncounted <= under_way_max.into(), "of {answered} requests it has not counted {uncounted}");
    Ok(uncounted)
}

fn print(turns: &[Turns]) {
    println!("{:8} {:>14} {:>10} {:>22}", "tool", "requests/s", "ratio", "not counted, at most");
    let first = turns.first().map_or(1.0, |turns| median(&turns.rates));
    for Turns { tool, rates, uncounted } in turns {
        let rate = median(rates);
        let most = uncounted.iter().max().unwrap_or(&0);
        println!("{:8} {rate:>14.0} {:>10.2} {most:>22}", tool.name, rate / first);
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

const CONFIG: &str = r#"workers = 1
[[listeners]]
address = "127.0.0.1:0"
http2 = true
tls.certificates = [{ chain = "{chain}", key = "{key}" }]
[[listeners]]
address = "127.0.0.1:0"
http2 = true
[[routes]]
path_exact = "/plaintext"
answer = { content = "Hello, World!" }
[admin]
address = "127.0.0.1:0"
"#;

/// With the building of the program.
const LIMIT: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_counts_otherwise_than_the_server_is_found() {
        assert_eq!(uncounted(100, 100, 4).unwrap(), 0);
        assert_eq!(uncounted(96, 100, 4).unwrap(), 4);
        assert!(
            uncounted(95, 100, 4).is_err() && uncounted(101, 100, 4).is_err() && uncounted(0, 0, 4).is_err()
        );
    }

    #[test]
    fn where_the_server_listens_with_tls_is_read() {
        let printed = "listening on https://127.0.0.1:1\nlistening on http://127.0.0.1:2\n";
        assert_eq!(secured_url(printed).unwrap(), "https://127.0.0.1:1");
        assert!(secured_url("listening on http://127.0.0.1:2\n").is_err());
    }

    #[test]
    fn the_middle_one_counts() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
