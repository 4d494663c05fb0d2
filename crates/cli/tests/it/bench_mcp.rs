//! Tests of `thruway bench mcp`: small real loads, and rejected command lines.

use std::fs;
use std::path::Path;

use crate::process::{Ended, Signal, Thruway};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway");

/// Starts the MCP demo server. Returns it with the URL of its endpoint.
fn server() -> (Thruway, String) {
    let mut server =
        Thruway::start_in(Path::new("."), &["mcp", "serve", "--listen", "127.0.0.1:0", "--workers", "1"]);
    let url = format!("{}/mcp", server.address());
    (server, url)
}

fn bench(args: &[&str]) -> Ended {
    Thruway::start_in(Path::new("."), &[&["bench", "mcp"], args].concat()).end()
}

fn stdio(args: &[&str]) -> Ended {
    bench(&[args, &["--", PROGRAM, "mcp", "serve", "--stdio"]].concat())
}

#[test]
fn http_server_load_runs_in_both_eras() {
    let (server, url) = server();
    let pid = server.pid().as_raw_nonzero().to_string();
    for (args, target) in [
        (&[][..], "(MCP 2026-07-28: tools/call echo)"),
        (&["--pipeline", "8"], "(MCP 2026-07-28: tools/call echo)"),
        (&["--no-keep-alive"], "(MCP 2026-07-28: tools/call echo)"),
        (&["--era", "legacy"], "(MCP 2025-11-25: tools/call echo, a session per connection)"),
        (
            &["--era", "2025-06-18", "--session", "per-call"],
            "(MCP 2025-06-18: tools/call echo, a session per call)",
        ),
        (
            &["--mix", "call=8,list=1,ping=1"],
            "(MCP 2026-07-28: tools/call echo ×8, tools/list ×1, server/discover ×1)",
        ),
        (&["-o", "ping", "--era", "legacy"], "(MCP 2025-11-25: ping, a session per connection)"),
        (&["-o", "read", "--uri", "example://hello"], "(MCP 2026-07-28: resources/read)"),
        (
            &["--tool", "add", "--arguments", r#"{"a": 1, "b": 2}"#, "--workers", "2"],
            "(MCP 2026-07-28: tools/call add)",
        ),
    ] {
        let load = [&url, "-n", "120", "-c", "4", "--output", "json", "--pid", &pid];
        let report = bench(&[&load[..], args].concat()).answered(120);
        assert_eq!(report["target"], format!("{url} {target}"));
        assert_eq!(report["statuses"][0]["status"], 200);
        assert!(report["server"]["resident_max_bytes"].as_u64().unwrap() > 1 << 20);
    }
}

#[test]
fn child_process_load_runs_in_both_eras() {
    for (args, target) in [
        (&[][..], "(MCP 2026-07-28: tools/call echo)"),
        (&["--window", "16"], "(MCP 2026-07-28: tools/call echo)"),
        (
            &["--era", "legacy", "--mix", "call,ping", "--window", "4"],
            "(MCP 2025-11-25: tools/call echo ×1, ping ×1)",
        ),
        (&["--rate", "400"], "(MCP 2026-07-28: tools/call echo)"),
    ] {
        let ended = stdio(&[&["-n", "200", "--output", "json"][..], args].concat());
        let report = ended.answered(200);
        assert_eq!(report["target"], format!("{PROGRAM} mcp serve --stdio {target}"));
        assert!(report["server"]["resident_max_bytes"].as_u64().unwrap() > 1 << 20);
        assert!(report["statuses"].as_array().unwrap().is_empty());
    }
}

#[test]
fn fan_out_measures_time_to_the_last_subscriber_in_both_eras() {
    let (server, url) = server();
    let pid = server.pid().as_raw_nonzero().to_string();
    for era in ["modern", "legacy", "2025-03-26"] {
        let args =
            [&url, "--era", era, "--subscribers", "20", "--tool", "count", "--uri", "example://counter"];
        let load = ["-n", "15", "--output", "json", "--pid", &pid];
        let report = bench(&[&args[..], &load].concat()).answered(15);
        assert!(
            report["target"].as_str().unwrap().contains("count notifies 20 subscribers of example://counter")
        );
        assert_eq!(report["deliveries"]["count"], 15 * 20, "{era}");
        let of = |times: &str, statistic: &str| report[times][statistic].as_f64().unwrap();
        let last = |times: &str| report[times]["max_us"].to_string();
        assert_eq!(last("service_time"), last("deliveries"), "the last delivery ends the service time");
        assert!(
            of("deliveries", "p50_us") <= of("service_time", "max_us") && of("deliveries", "p50_us") > 0.0
        );
        assert!(report["server"]["cpu_seconds"].as_f64().unwrap() > 0.0);
        jsonschema::validate(&bench(&["--schema"]).json(), &report).unwrap();
    }
    let args = [&url, "--subscribers", "20", "--tool", "count", "--uri", "example://counter", "-n", "60"];
    let report = bench(&[&args[..], &["--output", "json"]].concat()).json();
    assert!(report["generator"]["cpu_seconds"].as_f64().unwrap() > 0.002, "{report}");
    let text = bench(&args).stdout;
    assert!(
        text.contains("20 subscribers, 1 worker") && text.contains("deliveries     1,200, p50"),
        "{text}"
    );
}

#[test]
fn fan_out_without_notifications_is_an_error() {
    let (_server, url) = server();
    let subscribers = [&url, "--subscribers", "3", "-n", "1", "--timeout", "300ms"];
    for (args, message) in [
        (
            &["--tool", "count", "--uri", "example://hello"][..],
            "0 subscribers were notified of the first publication",
        ),
        (&["--tool", "none", "--uri", "example://counter"], "cannot call the tool:"),
        (&["--tool", "count"], "--uri"),
        (&["--tool", "count", "--uri", "a:b", "--rate", "5"], "cannot be used with"),
    ] {
        let ended = bench(&[&subscribers[..], args].concat());
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn mcp_report_matches_schema_and_has_html_page() {
    let (_server, url) = server();
    let directory = tempfile::tempdir().unwrap();
    let args = ["bench", "mcp", &url, "-n", "500", "--html", "page.html", "--output", "json"];
    let ended = Thruway::start_in(directory.path(), &args).end();
    jsonschema::validate(&bench(&["--schema"]).json(), &ended.answered(500)).unwrap();
    let page = fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<svg ").count(), 3);
    let text = stdio(&["-n", "50", "--window", "4"]);
    assert!(text.stdout.contains("50 answered, 0 failed"), "{}", text.stdout);
}

#[test]
fn error_responses_are_reported_and_fail_the_load() {
    let (_server, url) = server();
    for (args, kind, example) in [
        (["--tool", "none"], "rpc_error", "-32602"),
        (["--tool", "add"], "tool_error", ""),
        (["-o", "ping"], "wrong_status", "400"),
    ] {
        // Only the legacy era has `ping`, and the server responds 400 to a `ping` without a session.
        let era = if args[0] == "-o" { &["--era", "legacy", "--session", "none"][..] } else { &[] };
        let ended = bench(&[&[&url, "-n", "20", "-c", "2", "--output", "json"], &args[..], era].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let errors = &ended.json()["errors"];
        assert_eq!((&errors[0]["kind"], &errors[0]["count"]), (&kind.into(), &20.into()), "{errors}");
        assert_eq!(errors[0]["example"], example);
    }
}

#[test]
fn exited_child_process_ends_the_load_with_a_report() {
    let script = r#"
        answer() { printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$1"; }
        read -r line; answer 0
        read -r line; answer 0
        read -r line; answer 1
        exit 3"#;
    let args = ["-o", "list", "-d", "1h", "--output", "json", "--", "sh", "-c", script];
    let ended = bench(&args);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let report = ended.json();
    assert_eq!((&report["requests"]["answered"], &report["is_given_up"]), (&1.into(), &true.into()));
}

#[test]
fn interrupt_ends_child_process_load_and_prints_the_report() {
    let args = ["bench", "mcp", "-d", "1h", "--output", "json", "--", PROGRAM, "mcp", "serve", "--stdio"];
    let bench = Thruway::start_in(Path::new("."), &args);
    bench.wait_for_thread("bench-0");
    bench.signal(Signal::INT);
    let ended = bench.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(ended.json()["is_interrupted"], true);
}

#[test]
fn impossible_mcp_loads_are_errors_with_a_hint() {
    let (_server, url) = server();
    let elsewhere = url.replace("/mcp", "/none");
    for (args, message, hint) in [
        (
            vec!["http://127.0.0.1:1/mcp"],
            "connection refused",
            "check that the server runs and uses this port",
        ),
        (vec!["127.0.0.1:80"], "the URL has no scheme", "add `http://` before it"),
        (vec![&elsewhere], "status 404", "check the URL of the MCP endpoint: its path is usually `/mcp`"),
        (vec![&url, "--session", "per-call"], "2026-07-28 has no sessions", "`--era legacy`"),
        (vec![&url, "--era", "legacy", "--pipeline", "2"], "sends one request at a time", "`--session none`"),
        (vec![&url, "--era", "legacy", "-o", "discover"], "no `server/discover`", "`--operation ping`"),
        (
            vec![&url, "-o", "list", "--tool", "echo"],
            "`--tool` has no effect without `--operation call`",
            "`--operation call`",
        ),
        (vec![&url, "-o", "read"], "`--uri` is missing", "`--uri`"),
        (
            vec![&url, "--uri", "a://b"],
            "`--uri` has no effect without `--operation read`",
            "`--operation read`",
        ),
        (vec![&url, "-H", "Accept: text/html"], "the load generator sets the header", ""),
        (vec![&url, "-H", "Broken"], "`-H` number 1 is not a header", "`Name: value`"),
        (vec!["--", "/none/such"], "it cannot be started", "check the name of the command"),
        (
            vec!["--", "true"],
            "it ended before it responded",
            "check that the command is an MCP server on standard input and output",
        ),
        (vec!["--timeout", "100ms", "--", "sleep", "60"], "it did not respond in time", "`--timeout`"),
        (vec!["--session", "none", "--", "true"], "a child process has at most one session", "over HTTP"),
    ] {
        let ended = bench(&args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains(message), "{}", ended.stderr);
        assert!(ended.stderr.contains("\nhint: ") && ended.stderr.contains(hint), "{}", ended.stderr);
    }
}

#[test]
fn invalid_mcp_arguments_fail_before_any_connection() {
    for args in [
        &[][..],
        &["http://a/", "--", "true"],
        &["http://a/", "--window", "4"],
        &["http://a/", "--era", "ancient"],
        &["http://a/", "--era", "2025-01-01"],
        &["http://a/", "--operation", "dance"],
        &["http://a/", "--mix", "call=0"],
        &["http://a/", "--mix", "call=1,dance=1"],
        &["http://a/", "--mix", "call=1", "--operation", "list"],
        &["http://a/", "--arguments", "[]"],
        &["http://a/", "--arguments", "{"],
        &["--connections", "2", "--", "true"],
        &["--pid", "1", "--", "true"],
    ] {
        let ended = bench(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        assert!(ended.stderr.starts_with("error: "), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn stages_change_the_load_of_a_server() {
    let (_server, url) = server();
    let ended = bench(&[&url, "--stages", "100ms:100,100ms:100", "--output", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report = ended.json();
    assert_eq!(report["stages"][1]["answered"], 10, "{report}");
}
