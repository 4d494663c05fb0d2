//! The text of the overview.

use std::fmt::Write as _;

use serde::Deserialize;

/// The part of `/status` that the overview shows.
#[derive(Deserialize)]
pub(super) struct Status {
    version: String,
    uptime_seconds: u64,
    draining: bool,
    connections: u64,
    upstreams: Vec<UpstreamStatus>,
    #[serde(default)]
    mcp_endpoints: Vec<EndpointStatus>,
}

#[derive(Deserialize)]
struct UpstreamStatus {
    name: String,
    queued_requests: u64,
    servers: Vec<ServerStatus>,
}

#[derive(Deserialize)]
struct ServerStatus {
    address: String,
    state: String,
    slow_start_percent: Option<u64>,
    reason: Option<String>,
    requests_in_flight: u64,
    requests_total: u64,
    errors_total: u64,
}

#[derive(Deserialize)]
struct EndpointStatus {
    name: String,
    servers: Vec<MemberStatus>,
}

#[derive(Deserialize)]
struct MemberStatus {
    name: String,
    state: String,
    last_error: Option<String>,
    calls: Calls,
}

#[derive(Deserialize)]
struct Calls {
    total: u64,
    errors: u64,
}

/// The part of `/history` that the overview shows.
#[derive(Deserialize)]
pub(super) struct History {
    requests: Vec<Option<f64>>,
    errors: Vec<Option<f64>>,
    p50_us: Vec<Option<f64>>,
    p99_us: Vec<Option<f64>>,
    connections: Vec<Option<f64>>,
    cpu_percent: Vec<Option<f64>>,
    memory_bytes: Vec<Option<f64>>,
}

/// Formats a value of a chart.
type Format<'f> = &'f dyn Fn(f64) -> String;

/// Returns the overview, with lines of at most `columns` characters. `url` is the URL of the admin listener.
pub(super) fn screen(url: &str, status: &Status, history: &History, columns: usize) -> String {
    let drain = if status.draining { ", shutting down" } else { "" };
    let mut text = format!(
        "Thruway {} at {url}, up {}, {} connections{drain}\n\n",
        status.version,
        uptime(status.uptime_seconds),
        status.connections
    );
    let plain = |value: f64| format!("{value:.0}");
    let milliseconds = |value: f64| format!("{:.1} ms", value / 1_000.0);
    let charts: [(&str, &[Option<f64>], Format<'_>); 7] = [
        ("requests/s", &history.requests, &plain),
        ("errors/s", &history.errors, &plain),
        ("p50", &history.p50_us, &milliseconds),
        ("p99", &history.p99_us, &milliseconds),
        ("connections", &history.connections, &plain),
        ("CPU", &history.cpu_percent, &|value| format!("{value:.0} %")),
        ("memory", &history.memory_bytes, &|value| format!("{:.0} MiB", value / f64::from(1 << 20))),
    ];
    for (name, values, format) in charts {
        write_chart(&mut text, name, values, format);
    }
    write_servers(&mut text, &status.upstreams);
    write_members(&mut text, &status.mcp_endpoints);
    text.lines().fold(String::new(), |mut all, line| {
        all.extend(printable(line.trim_end()).chars().take(columns));
        all.push('\n');
        all
    })
}

/// Writes the newest value, the values of the last 15 minutes as bars, and their maximum.
fn write_chart(text: &mut String, name: &str, values: &[Option<f64>], format: Format<'_>) {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.last().copied().flatten().map_or_else(|| "–".to_owned(), format);
    let bars: String = values.iter().map(|value| value.map_or(' ', |value| bar(value, most))).collect();
    let _ = writeln!(text, "{name:<12}{now:>11}  {bars}  max {}", format(most));
}

/// Returns a bar whose height is the share of `value` in `most`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is from 0 to 1")]
fn bar(value: f64, most: f64) -> char {
    let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    BARS[(share * 7.0).round() as usize]
}

fn write_servers(text: &mut String, upstreams: &[UpstreamStatus]) {
    let servers = upstreams.iter().flat_map(|upstream| &upstream.servers);
    let widest = servers.map(|server| server.address.chars().count()).max().unwrap_or_default();
    for UpstreamStatus { name, queued_requests, servers } in upstreams {
        let _ = writeln!(text, "\nupstream {name}, {queued_requests} queued");
        for server in servers {
            let slow_start = server.slow_start_percent.map(|percent| format!("slow start, {percent} %"));
            let state = slow_start.unwrap_or_else(|| state_label(&server.state));
            let reason = server.reason.as_deref().filter(|_| state != "up").unwrap_or_default();
            let _ = writeln!(
                text,
                "  {:<widest$}  {state:<15} {:>5} in flight {:>9} requests {:>7} errors  {reason}",
                server.address, server.requests_in_flight, server.requests_total, server.errors_total
            );
        }
    }
}

fn write_members(text: &mut String, endpoints: &[EndpointStatus]) {
    for EndpointStatus { name, servers } in endpoints {
        let _ = writeln!(text, "\nMCP endpoint {name}");
        for MemberStatus { name, state, last_error, calls } in servers {
            let error = last_error.as_deref().unwrap_or_default();
            let (total, errors) = (calls.total, calls.errors);
            let _ = writeln!(text, "  {name:<24}  {state:<15} {total:>9} calls {errors:>7} errors  {error}");
        }
    }
}

/// Returns the label of a server state, as the dashboard shows it.
fn state_label(state: &str) -> String {
    if state == "check_failing" { "failing checks".to_owned() } else { state.replace('_', " ") }
}

fn uptime(seconds: u64) -> String {
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

/// Replaces characters that could control the terminal or reverse the direction of the text. The names come
/// from other parties.
pub(super) fn printable(text: &str) -> String {
    let is_control = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example(server: &str) -> (Status, History) {
        let status = json!({
            "version": "1.2.3", "uptime_seconds": 3_700, "draining": false, "connections": 5,
            "upstreams": [{"name": "backend", "queued_requests": 2, "servers": [
                {"address": server, "state": "check_failing", "reason": "connection refused",
                 "requests_in_flight": 1, "requests_total": 20, "errors_total": 3},
                {"address": "b", "state": "up", "slow_start_percent": 40, "reason": "recovered",
                 "requests_in_flight": 0, "requests_total": 1, "errors_total": 0}]}],
            "mcp_endpoints": [{"name": "dev", "servers": [
                {"name": "files", "state": "failed", "last_error": "exited", "calls": {"total": 4, "errors": 1}}]}],
        });
        let history = json!({
            "requests": [null, 0, 50.5, 100], "errors": [null, 0, 0, 0], "p50_us": [null, null, 1_500, 2_000],
            "p99_us": [null, null, 1_500, 2_500], "connections": [null, 1, 2, 3],
            "cpu_percent": [null, 1.5, 2, 3], "memory_bytes": [null, 1_048_576, 1_048_576, 2_097_152],
        });
        (serde_json::from_value(status).unwrap(), serde_json::from_value(history).unwrap())
    }

    #[test]
    fn overview_shows_charts_servers_and_members() {
        let (status, history) = example("127.0.0.1:9");
        let text = screen("http://127.0.0.1:9900", &status, &history, 200);
        for line in [
            "Thruway 1.2.3 at http://127.0.0.1:9900, up 1h 1m 40s, 5 connections",
            "requests/s          100   ▁▅█  max 100",
            "p99              2.5 ms    ▅█  max 2.5 ms",
            "upstream backend, 2 queued",
            "  127.0.0.1:9  failing checks      1 in flight        20 requests       3 errors  connection refused",
            "  b            slow start, 40 %     0 in flight         1 requests       0 errors  recovered",
            "MCP endpoint dev",
            "  files                     failed                  4 calls       1 errors  exited",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
        }
    }

    #[test]
    fn lines_are_not_longer_than_the_terminal() {
        let (status, history) = example("127.0.0.1:9");
        let text = screen("http://127.0.0.1:9900", &status, &history, 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let (status, history) = example("\u{1b}[2J\u{9b}31m\u{202e}\r\u{7}x");
        let text = screen("u", &status, &history, 300);
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r', '\u{7}']), "{text:?}");
    }
}
