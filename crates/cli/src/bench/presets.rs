//! Loads that are asked for as of other tools: `thruway bench wrk` and `thruway bench ab` take what people have in their
//! fingers and scripts. Reports are ours.

use std::process::ExitCode;
use std::time::Duration;

use super::args::{AbArgs, HttpArgs, HttpLoadArgs, LoadArgs, ReportArgs, WrkArgs};
use super::http;
use crate::config::Failure;

/// As `wrk` would.
pub(super) fn run_wrk(args: &WrkArgs) -> Result<ExitCode, Failure> {
    if args.script.is_some() {
        return Err(Failure::new("scripts are not run").with_hint(
            "`thruway bench http` has `--method`, `--content`, `-H`, `--pipeline`, and `@FILE` with requests that differ",
        ));
    }
    if u32::from(args.threads) > args.connections {
        let message = format!("{} threads cannot share {} connections", args.threads, args.connections);
        return Err(
            Failure::new(message).with_hint("each thread needs a connection: fewer `-t`, or more `-c`")
        );
    }
    let (header, closes) = without_persistence(&args.header);
    let load = LoadArgs {
        connections: args.connections,
        workers: args.threads,
        duration: args.duration,
        timeout: args.timeout,
        is_not_persistent: closes,
        header,
        ..LoadArgs::default()
    };
    run(&args.url, HttpLoadArgs { load, ..HttpLoadArgs::default() })
}

/// As `ab` would, with HTTP/1.1: without `-k`, a connection for each request.
pub(super) fn run_ab(args: &AbArgs) -> Result<ExitCode, Failure> {
    let (mut header, closes) = without_persistence(&args.header);
    header.extend(args.content_type.iter().map(|value| format!("Content-Type: {value}")));
    if !args.cookie.is_empty() {
        header.push(format!("Cookie: {}", args.cookie.join("; ")));
    }
    let load = LoadArgs {
        connections: args.concurrency,
        requests: args.time_limit.is_none().then_some(args.requests),
        duration: Duration::from_secs(args.time_limit.unwrap_or(1)),
        timeout: Duration::from_secs(args.timeout),
        is_not_persistent: closes || !args.is_persistent,
        header,
        ..LoadArgs::default()
    };
    let content = args.content.as_ref().or(args.put.as_ref()).map(|file| format!("@{file}"));
    run(&args.url, HttpLoadArgs { load, method: method(args), content, ..HttpLoadArgs::default() })
}

fn method(args: &AbArgs) -> Option<String> {
    let implied = if args.is_head {
        Some("HEAD")
    } else if args.put.is_some() {
        Some("PUT")
    } else {
        None
    };
    args.method.clone().or_else(|| implied.map(str::to_owned))
}

/// The other header fields, and whether `Connection` asks for a connection for each request: what it says is for the load generator, and is no field of its own.
fn without_persistence(header: &[String]) -> (Vec<String>, bool) {
    let (mut others, mut closes) = (Vec::new(), false);
    for line in header {
        match persistence(line) {
            Some(is_persistent) => closes |= !is_persistent,
            None => others.push(line.clone()),
        }
    }
    (others, closes)
}

/// Whether a field line says that the connection goes on, if it is about that alone.
fn persistence(line: &str) -> Option<bool> {
    let (name, value) = line.split_once(':')?;
    if !name.trim().eq_ignore_ascii_case("connection") {
        return None;
    }
    match value.trim() {
        value if value.eq_ignore_ascii_case("keep-alive") => Some(true),
        value if value.eq_ignore_ascii_case("close") => Some(false),
        _ => None,
    }
}

fn run(url: &str, load: HttpLoadArgs) -> Result<ExitCode, Failure> {
    let targets = vec![url.to_owned()];
    http::run(&HttpArgs { targets, load, report: ReportArgs::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_says_is_understood_and_not_sent() {
        for (line, expected) in [
            ("Connection: keep-alive", Some(true)),
            ("connection:Keep-Alive", Some(true)),
            ("CONNECTION: close ", Some(false)),
            ("Connection: upgrade", None),
            ("X-Connection: close", None),
            ("Connection", None),
        ] {
            assert_eq!(persistence(line), expected, "{line}");
        }
        let header = ["A: b", "Connection: close", "C: d"].map(str::to_owned);
        assert_eq!(without_persistence(&header), (vec!["A: b".to_owned(), "C: d".to_owned()], true));
    }
}
