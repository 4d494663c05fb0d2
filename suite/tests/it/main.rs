//! Tests `thruway-suite` with real servers and short loads, missing peers, servers that end, and interrupts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use process::{Ended, Signal, Thruway};

#[path = "../../../crates/cli/tests/it/process.rs"]
#[allow(dead_code, reason = "the tests of the command line use all of it")]
mod process;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_thruway-suite");

/// Returns the path of `thruway`. `cargo test` builds it for the tests of the command line.
fn thruway() -> String {
    let path = Path::new(PROGRAM).with_file_name("thruway");
    assert!(path.exists(), "run `cargo build -p thruway` first");
    path.display().to_string()
}

/// Arguments for a short run with only Thruway.
const SHORT: &str = "--rounds 2 --duration 300ms --peers none";

/// Arguments for a short run of one case with the peer `hyper`.
const WITH_HYPER: &str =
    "plaintext --cases plaintext_c=256 --rounds 2 --duration 300ms --limit 5s --peers hyper";

/// Runs the suite to its end. Spaces separate arguments; `_` is a space in an argument.
fn suite(directory: &Path, args: &str) -> Ended {
    let words: Vec<_> = args.split_whitespace().map(|word| word.replace('_', " ")).collect();
    Thruway::start_in(directory, &words.iter().map(String::as_str).collect::<Vec<_>>()).end()
}

/// Runs the suite, and returns its report and its exit code.
fn measured(directory: &Path, args: &str) -> (Value, Option<i32>) {
    let ended = suite(directory, &format!("{args} --report reports"));
    (report(directory, &ended), ended.code)
}

/// Reads the report that a run has written.
fn report(directory: &Path, ended: &Ended) -> Value {
    let text = fs::read_to_string(directory.join("reports/report.json"));
    serde_json::from_str(&text.unwrap_or_else(|error| panic!("{error}: {}", ended.stderr))).unwrap()
}

fn case<'a>(report: &'a Value, name: &str) -> &'a Vec<Value> {
    let cases = report["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == name);
    case.unwrap_or_else(|| panic!("no `{name}`: {report:#}"))["candidates"].as_array().unwrap()
}

/// Writes an executable script in place of another program, and returns its path.
fn program(directory: &Path, name: &str, script: &str) -> String {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Returns the sum of a figure in the rounds of a candidate.
fn sum(candidate: &Value, pointer: &str) -> f64 {
    let rounds = candidate["rounds"].as_array().unwrap();
    rounds.iter().map(|round| round.pointer(pointer).map_or(0.0, |value| value.as_f64().unwrap())).sum()
}

/// Asserts that a candidate succeeded, apart from requests that were in flight at the end of a round.
///
/// On a busy machine, a gateway may not respond on any of 200 connections within the 300 ms of a round.
fn assert_loaded(name: &str, candidate: &Value) {
    let rounds = candidate["rounds"].as_array().unwrap();
    assert!(candidate["failure"].is_null() && rounds.len() == 2, "{name}: {candidate}");
    assert!(sum(candidate, "/answered") > 0.0, "{name}: {candidate}");
    assert!(sum(candidate, "/failed") <= 2.0 * CONNECTIONS_MAX, "{name}: {candidate}");
}

/// Maximum number of connections of the cases in these tests.
const CONNECTIONS_MAX: f64 = 200.0;

#[test]
fn reports_of_a_run_replace_earlier_reports() {
    let directory = tempfile::tempdir().unwrap();
    let reports = directory.path().join("reports");
    fs::create_dir(&reports).unwrap();
    fs::write(reports.join("report.md"), "earlier").unwrap();
    let args = format!("pipelining --cases depth_16 {SHORT} --report reports");
    let ended = suite(directory.path(), &args);
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let report = report(directory.path(), &ended);
    let ours = &case(&report, "pipelining depth 16")[0];
    assert_eq!((&ours["name"], sum(ours, "/failed")), (&"thruway".into(), 0.0));
    assert_loaded("pipelining depth 16", ours);
    let command = report["settings"]["command"].as_str().unwrap();
    let typed = "thruway-suite pipelining --cases 'depth 16' --rounds 2 --duration 300ms --peers none \
                 --report reports";
    assert_eq!(command, typed);
    let markdown = fs::read_to_string(reports.join("report.md")).unwrap();
    assert!(markdown.contains("\n## W2: with and without pipelining\n"), "{markdown}");
    assert_eq!(ended.stdout.trim_end(), markdown.trim_end());
}

#[test]
fn every_kind_of_server_starts_and_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let cases = "echo_c=2,stdio_prompts/list,window_16,gateway_4_KB_c=200,closing_backend_4_KB_c=200";
    let (report, _) = measured(directory.path(), &format!("all --limit 5m --cases {cases} {SHORT}"));
    for (name, place) in [
        ("mcp tools/call echo c=2", 0),
        ("stdio tools/call echo, window 16", 0),
        ("stdio tools/call echo, window 16, by a hand-written loop", 1),
        ("gateway 4 KB c=200", 0),
        ("gateway before a closing backend 4 KB c=200", 0),
        ("stdio prompts/list", 0),
        ("stdio prompts/list", 1),
    ] {
        let candidate = &case(&report, name)[place];
        assert_loaded(name, candidate);
        assert!(sum(candidate, "/server_cpu") > 0.0, "{name}: {candidate}");
    }
    assert_eq!(case(&report, "stdio prompts/list")[1]["name"], "thruway over HTTP");
}

#[test]
fn gateways_run_with_every_config_shared_cores_and_reloads() {
    let directory = tempfile::tempdir().unwrap();
    let args = format!("gateway --limit 5m --cases shared_cores,reloads,realistic,single_settings {SHORT}");
    let (report, _) = measured(directory.path(), &args);
    for (name, expected) in [
        ("gateway 2 B c=200, shared cores", &["thruway"][..]),
        ("gateway reloads c=200", &["thruway", "thruway left alone"]),
        ("gateway realistic config c=200", &["thruway", "thruway-realistic"]),
        (
            "gateway single settings c=200",
            &[
                "thruway",
                "thruway-routes",
                "thruway-servers",
                "thruway-access-log",
                "thruway-metrics",
                "thruway-checks",
                "thruway-rewriting",
                "thruway-policies",
            ],
        ),
    ] {
        let found = case(&report, name);
        let names: Vec<_> = found.iter().map(|candidate| candidate["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{name}");
        for candidate in found {
            assert_loaded(name, candidate);
        }
    }
}

#[test]
fn servers_support_tls_and_http2_with_the_run_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let cases = "tls_4_KB,handshakes,http2_4_KB,http2_gateway_2_B";
    let args = format!("all --limit 5m --rounds 2 --duration 1s --peers none --cases {cases}");
    let (report, _) = measured(directory.path(), &args);
    for (name, is_full, is_resumed) in [
        ("tls 4 KB c=64", false, false),
        ("tls full handshakes c=32", true, false),
        ("tls resumed handshakes c=32", true, true),
        ("http2 4 KB c=8 m=32", false, false),
        ("http2 gateway 2 B c=8 m=32", false, false),
    ] {
        let ours = &case(&report, name)[0];
        assert_eq!((&ours["failure"], sum(ours, "/failed")), (&Value::Null, 0.0), "{name}: {ours}");
        assert!(sum(ours, "/answered") > 0.0, "{name}: {ours}");
        let (full, resumed) = (sum(ours, "/handshakes/full"), sum(ours, "/handshakes/resumed"));
        // With resumed sessions, all full handshakes may have been before the measurement.
        assert!(is_full || full == 0.0, "{name}: {ours}");
        assert_eq!(is_resumed, resumed > 0.0, "{name}: {ours}");
        assert!(!is_full || full + resumed > 0.0, "{name}: {ours}");
    }
}

#[test]
fn report_lists_missing_peers_and_cases_without_time() {
    let directory = tempfile::tempdir().unwrap();
    let because = |report: &Value, what: &str| {
        let left_out = report["left_out"].as_array().unwrap();
        let left = left_out.iter().find(|left| left["what"] == what);
        left.map_or_else(String::new, |left| left["because"].as_str().unwrap().to_owned())
    };
    let (report, _) = measured(directory.path(), &format!("plaintext --limit 3s {SHORT}"));
    assert_eq!(because(&report, "plaintext c=1"), "not enough time within `--limit`");
    assert_eq!(because(&report, "plaintext c=256"), "");
    let (report, _) = measured(directory.path(), WITH_HYPER);
    assert_eq!(because(&report, "hyper"), "built peers need `--peers-from`");
    fs::create_dir(directory.path().join("peers")).unwrap();
    let (report, _) = measured(directory.path(), &format!("{WITH_HYPER} --peers-from peers"));
    assert!(because(&report, "hyper").ends_with("does not exist: build it with `cargo xtask bench`"));
}

/// The relay needs two descriptors per client, so it supports fewer clients.
#[test]
fn relay_runs_with_as_many_clients_as_its_descriptors_allow() {
    let directory = tempfile::tempdir().unwrap();
    // This script in place of the relay serves requests itself if it gets a backend argument.
    let script = format!(
        "case \"$1 $3 $4\" in '--listen --backend 127.0.0.1:'*) exec {} serve --listen \"$2\";; esac\nexit 9",
        thruway()
    );
    program(directory.path(), "target/release/bench-relay", &script);
    let args = "gateway --cases shared_cores --rounds 2 --duration 300ms --peers relay --peers-from . \
                --report reports";
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 300; exec \"$0\" \"$@\"", PROGRAM]);
    shell.args(args.split_whitespace().map(|word| word.replace('_', " ")));
    // With this descriptor limit, Thruway may fail requests.
    shell.current_dir(directory.path()).output().unwrap();
    let text = fs::read_to_string(directory.path().join("reports/report.json")).unwrap();
    let report = serde_json::from_str(&text).unwrap();
    let candidates = case(&report, "gateway 2 B c=200, shared cores");
    assert_eq!(candidates[0].get("connections"), None, "{candidates:?}");
    assert_eq!((&candidates[1]["name"], &candidates[1]["failure"]), (&"relay".into(), &Value::Null));
    assert_eq!(candidates[1]["connections"], (300 - 64) / 2, "{candidates:?}");
    assert_loaded("relay", &candidates[1]);
}

#[test]
fn peer_that_ends_at_start_is_retried_and_failure_has_its_output() {
    let directory = tempfile::tempdir().unwrap();
    let built = "peers/target/release/bench-hyper";
    program(directory.path(), built, "echo 'cannot bind: no luck' >&2; exit 7");
    let args = format!("{WITH_HYPER} --peers-from peers");
    let (report, code) = measured(directory.path(), &args);
    assert_eq!(code, Some(1));
    let candidates = case(&report, "plaintext c=256");
    let failure = candidates[1]["failure"].as_str().unwrap();
    assert!(failure.contains("it printed `cannot bind: no luck`"), "{failure}");
    assert!(failure.ends_with("has ended: exit status: 7"), "{failure}");
    assert!(sum(&candidates[0], "/answered") > 0.0, "{candidates:?}");
    // The suite starts the peer again, because another process may have taken its port.
    let script = format!(
        "[ -e tried ] || {{ touch tried; echo 'address already in use' >&2; exit 1; }}\nexec {} serve \"$@\"",
        thruway()
    );
    program(directory.path(), built, &script);
    let (report, _) = measured(directory.path(), &args);
    let candidates = case(&report, "plaintext c=256");
    assert_eq!((&candidates[1]["name"], &candidates[1]["failure"]), (&"hyper".into(), &Value::Null));
}

#[test]
fn failure_of_server_that_ends_under_load_has_its_output() {
    let directory = tempfile::tempdir().unwrap();
    // This server ends after a number of requests.
    let script = format!(
        "if [ \"$1\" = --version ]; then echo mortal; exit; fi\n{} \"$@\" & child=$!\n\
         while read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user _ < /proc/$child/stat && [ \"$user\" -lt 3 ]\n\
         do :; done\n\
         kill -9 $child; echo out of breath >&2; exit 9",
        thruway()
    );
    program(directory.path(), "mortal", &script);
    let args = "plaintext --cases plaintext_c=256 --rounds 2 --duration 4s --limit 9s --peers none";
    let (report, code) = measured(directory.path(), &format!("{args} --program ./mortal"));
    let failure = case(&report, "plaintext c=256")[0]["failure"].as_str().unwrap();
    // On a busy machine, the server can end while the suite waits for it.
    assert!(
        failure.starts_with("it printed `out of breath`: ") && failure.ends_with("exit status: 9"),
        "{failure}"
    );
    assert!(report["environment"]["version"].as_str().unwrap().starts_with("mortal"), "{report}");
    assert!(matches!(code, Some(1 | 2)), "{code:?}");
}

#[test]
fn interrupt_writes_report_and_leaves_no_server() {
    let directory = tempfile::tempdir().unwrap();
    let note = program(directory.path(), "noted", &format!("echo $$ >> pids; exec {} \"$@\"", thruway()));
    let args = ["plaintext", "--duration", "10m", "--limit", "1h", "--peers", "none"];
    let args = [&args[..], &["--program", &note, "--report", "reports"]].concat();
    let suite = Thruway::start_in(directory.path(), &args);
    suite.wait_for_thread("bench-0");
    suite.signal(Signal::INT);
    let ended = suite.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let report = report(directory.path(), &ended);
    assert_eq!(report["is_interrupted"], true);
    let left_out = report["left_out"].to_string();
    assert!(left_out.contains("the run was interrupted before this case"), "{left_out}");
    let pids = fs::read_to_string(directory.path().join("pids")).unwrap();
    assert!(pids.lines().count() > 0);
    for pid in pids.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "process {pid} still runs");
    }
}

#[test]
fn invalid_arguments_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    for (args, message) in [
        ("plainttext", "invalid value 'plainttext'"),
        ("", "<NAME>"),
        ("all --peers ngnix", "unknown peer `ngnix`: the peers are thruway, nginx"),
        ("all --cases c=17", "no case name contains `c=17`: the cases are `plaintext c=1`"),
        ("all --peers-from none", "is not a directory"),
        ("all --build", "--peers-from"),
        ("all --program file", "`file` is not a program"),
        ("all --report file", "cannot write to `file`"),
        ("all --limit 0s", "the time must be more than 0"),
        ("all --rounds 1", "1 is not in 2..=100"),
    ] {
        let ended = suite(directory.path(), args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(message), "{}", ended.stderr);
    }
}
