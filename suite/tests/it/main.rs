//! `thruway-suite`: real servers, short loads, missing peers, dying servers, and interrupts.

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

/// The `thruway` under test. `cargo test` builds it with the tests of the command line.
fn thruway() -> String {
    let path = Path::new(PROGRAM).with_file_name("thruway");
    assert!(path.exists(), "`cargo build -p thruway` comes first");
    path.display().to_string()
}

/// Ours alone, as short as it can be.
const SHORT: &str = "--rounds 2 --duration 300ms --peers none";

/// One case with the peer `hyper` of the folder `peers`, as short as it can be.
const WITH_HYPER: &str = "plaintext --rounds 2 --duration 300ms --limit 5s --peers hyper";

/// Runs the suite to its end. Arguments are separated by spaces; `_` stands for a space in one.
fn suite(directory: &Path, args: &str) -> Ended {
    let words: Vec<_> = args.split_whitespace().map(|word| word.replace('_', " ")).collect();
    Thruway::start_in(directory, &words.iter().map(String::as_str).collect::<Vec<_>>()).end()
}

/// Runs the suite, and returns its report.
fn measured(directory: &Path, args: &str) -> Value {
    json(&suite(directory, &format!("{args} --output json")).stdout)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn case<'a>(report: &'a Value, name: &str) -> &'a Value {
    let cases = report["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("no `{name}`: {report:#}"))
}

/// A program that answers for another one: a script.
fn program(directory: &Path, name: &str, script: &str) -> String {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn one_workload_is_measured_and_its_reports_are_written_and_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let args = format!("pipelining --cases depth_16 --report reports --output json {SHORT}");
    let ended = suite(directory.path(), &args);
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let report = json(&ended.stdout);
    let schema = suite(directory.path(), "--schema");
    jsonschema::validate(&json(&schema.stdout), &report).unwrap();
    let ours = &case(&report, "pipelining depth 16")["candidates"][0];
    assert_eq!((&ours["name"], ours["rounds"].as_array().unwrap().len()), (&"thruway".into(), 2));
    assert!(ours["rounds"][0]["answered"].as_u64().is_some_and(|answered| answered > 0), "{ours}");
    assert_eq!(ours["rounds"][0]["failed"], 0, "{ours}");
    let command = report["settings"]["command"].as_str().unwrap();
    assert_eq!(
        command,
        "thruway-suite pipelining --limit 30m --duration 300ms --rounds 2 --cases 'depth 16' --peers 'none'"
    );

    let read = |name: &str| fs::read_to_string(directory.path().join("reports").join(name)).unwrap();
    assert_eq!(json(&read("report.json")), report);
    assert!(read("report.html").contains("<h2>W2: with and without pipelining</h2>"));
    let again = suite(directory.path(), "--from reports/report.json --output markdown");
    assert_eq!((again.code, again.stdout.trim_end()), (Some(0), read("report.md").trim_end()));
}

#[test]
fn every_kind_of_server_is_started_and_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let cases = "echo_c=2,stdio_prompts/list,window_16,gateway_4_KB_c=200";
    let report = measured(directory.path(), &format!("all --limit 5m --cases {cases} {SHORT}"));
    for (name, place) in [
        ("mcp tools/call echo c=2", 0),
        ("stdio tools/call echo, window 16", 0),
        ("stdio tools/call echo, window 16, by a hand-written loop", 1),
        ("gateway 4 KB c=200", 0),
    ] {
        let ours = &case(&report, name)["candidates"][place];
        assert_loaded(name, ours);
        let cpu = |round: &Value| round["server_cpu"].as_f64().unwrap_or_default();
        assert!(ours["rounds"].as_array().unwrap().iter().any(|round| cpu(round) > 0.0), "{name}: {ours}");
    }
    let pipes = &case(&report, "stdio prompts/list")["candidates"];
    assert_eq!((&pipes[0]["name"], &pipes[1]["name"]), (&"thruway".into(), &"thruway over HTTP".into()));
    assert!(pipes[1]["rounds"][1]["answered"].as_u64().is_some_and(|answered| answered > 0), "{pipes}");
}

/// Asserts that a candidate answered requests, and failed only those that were open at the end of a round.
///
/// On a busy machine a gateway may answer none of 200 connections within the 300 ms of a round.
fn assert_loaded(name: &str, candidate: &Value) {
    let rounds = candidate["rounds"].as_array().unwrap();
    assert!(candidate["failure"].is_null() && rounds.len() == 2, "{name}: {candidate}");
    let figures = |key: &str| rounds.iter().map(|round| round[key].as_u64().unwrap()).collect::<Vec<_>>();
    assert!(figures("answered").iter().sum::<u64>() > 0, "{name}: {candidate}");
    assert!(figures("failed").iter().all(|failed| *failed <= CONNECTIONS_MAX), "{name}: {candidate}");
}

/// Largest number of connections of the cases here.
const CONNECTIONS_MAX: u64 = 200;

/// Measures these cases of W6, and compares their candidates with `expected`.
fn assert_gateways(chosen: &str, expected: &[(&str, &[&str])]) {
    let directory = tempfile::tempdir().unwrap();
    let report = measured(directory.path(), &format!("gateway --limit 5m --cases {chosen} {SHORT}"));
    for (name, candidates) in expected {
        let found = case(&report, name)["candidates"].as_array().unwrap();
        let names: Vec<_> = found.iter().map(|candidate| candidate["name"].as_str().unwrap()).collect();
        assert_eq!(names, *candidates, "{name}");
        for candidate in found {
            assert_loaded(name, candidate);
        }
    }
}

#[test]
fn gateways_share_cores_and_read_their_config_again() {
    assert_gateways(
        "shared_cores,reloads",
        &[
            ("gateway 2 B c=200, shared cores", &["thruway"]),
            ("gateway reloads c=200", &["thruway", "thruway left alone"]),
        ],
    );
}

#[test]
fn gateways_of_every_config_answer() {
    assert_gateways(
        "realistic,single_settings",
        &[
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
        ],
    );
}

#[test]
fn servers_speak_tls_and_http2_with_a_certificate_of_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let cases = "tls_4_KB,handshakes,http2_4_KB,http2_gateway_2_B";
    let args = format!("all --limit 5m --rounds 2 --duration 1s --peers none --cases {cases}");
    let report = measured(directory.path(), &args);
    for (name, is_full, is_resumed) in [
        ("tls 4 KB c=64", false, false),
        ("tls full handshakes c=32", true, false),
        ("tls resumed handshakes c=32", true, true),
        ("http2 4 KB c=8 m=32", false, false),
        ("http2 gateway 2 B c=8 m=32", false, false),
    ] {
        let ours = &case(&report, name)["candidates"][0];
        let sum = |of: &str| {
            let rounds = ours["rounds"].as_array().unwrap();
            rounds.iter().map(|round| round.pointer(of).map_or(0, |n| n.as_u64().unwrap())).sum::<u64>()
        };
        assert_eq!((&ours["failure"], sum("/failed")), (&Value::Null, 0), "{name}: {ours}");
        assert!(sum("/answered") > 0, "{name}: {ours}");
        // Where sessions are resumed, the first ones may all have been before it was measured.
        assert!(is_full || sum("/handshakes/full") == 0, "{name}: {ours}");
        assert_eq!(is_resumed, sum("/handshakes/resumed") > 0, "{name}: {ours}");
        assert!(!is_full || sum("/handshakes/full") + sum("/handshakes/resumed") > 0, "{name}: {ours}");
    }
}

#[test]
fn what_does_not_fit_into_the_time_is_left_out_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let report = measured(directory.path(), &format!("plaintext --limit 3s {SHORT}"));
    let left_out = report["left_out"].as_array().unwrap();
    let because = |what: &str| left_out.iter().find(|left| left["what"] == what).map(|left| &left["because"]);
    assert_eq!(because("plaintext c=1"), Some(&"there is no time for it within `--limit`".into()));
    assert_eq!(because("plaintext c=256"), None, "{left_out:?}");
}

#[test]
fn peers_that_are_not_there_are_named_with_what_would_help() {
    let directory = tempfile::tempdir().unwrap();
    let missing = format!("{WITH_HYPER} --cases plaintext_c=256 --output markdown");
    let ended = suite(directory.path(), &missing);
    assert!(
        ended.stdout.contains("no `--peers-from` (or $THRUWAY_PEERS) says where peers were built | hyper"),
        "{}",
        ended.stdout
    );
    fs::create_dir(directory.path().join("peers")).unwrap();
    let ended = suite(directory.path(), &format!("{missing} --peers-from peers"));
    assert!(ended.stdout.contains("was not built: `cargo xtask bench` builds it"), "{}", ended.stdout);
}

/// A program in place of the relay answers requests itself, if it gets a backend.
fn build_a_relay(directory: &Path) {
    let script = format!(
        "case \"$1 $3 $4\" in '--listen --backend 127.0.0.1:'*) exec {} serve --listen \"$2\";; esac\nexit 9",
        thruway()
    );
    program(directory, "target/release/bench-relay", &script);
}

const WITH_RELAY: &str = "gateway --cases shared_cores --rounds 2 --duration 300ms --peers relay --peers-from . \
                          --output json";

#[test]
fn the_relay_takes_part_before_a_backend_if_it_was_built() {
    let directory = tempfile::tempdir().unwrap();
    let measure = || suite(directory.path(), WITH_RELAY);
    let absent = measure();
    assert_eq!(absent.code, Some(0), "{}", absent.stderr);
    assert_eq!(json(&absent.stdout)["left_out"][0]["what"], "relay");
    build_a_relay(directory.path());
    let report = json(&measure().stdout);
    let relay = &case(&report, "gateway 2 B c=200, shared cores")["candidates"][1];
    assert_eq!((&relay["name"], &relay["failure"]), (&"relay".into(), &Value::Null), "{relay}");
    assert_eq!((relay["rounds"].as_array().unwrap().len(), relay.get("connections")), (2, None), "{relay}");
}

#[test]
fn the_relay_has_no_more_clients_than_two_descriptors_for_each() {
    let directory = tempfile::tempdir().unwrap();
    build_a_relay(directory.path());
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 300; exec \"$0\" \"$@\"", PROGRAM]);
    shell.args(WITH_RELAY.split_whitespace().map(|word| word.replace('_', " ")));
    let output = shell.current_dir(directory.path()).output().unwrap();
    let report = json(&String::from_utf8_lossy(&output.stdout));
    let candidates = &case(&report, "gateway 2 B c=200, shared cores")["candidates"];
    assert_eq!(candidates[0].get("connections"), None, "{candidates}");
    assert_eq!(candidates[1]["connections"], (300 - 64) / 2, "{candidates}");
}

#[test]
fn a_peer_that_dies_at_its_start_fails_with_what_it_printed_and_the_others_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let built = "peers/target/release/bench-hyper";
    program(directory.path(), built, "echo 'cannot bind: no luck' >&2; exit 7");
    let args = format!("{WITH_HYPER} --cases plaintext_c=256 --peers-from peers --output json");
    let ended = suite(directory.path(), &args);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let report = json(&ended.stdout);
    let candidates = &case(&report, "plaintext c=256")["candidates"];
    let failure = candidates[1]["failure"].as_str().unwrap();
    assert!(failure.contains("exit status: 7; it printed: cannot bind: no luck"), "{failure}");
    assert!(
        candidates[0]["rounds"][0]["answered"].as_u64().is_some_and(|answered| answered > 0),
        "{candidates}"
    );
}

#[test]
fn a_port_that_somebody_else_has_taken_meanwhile_is_tried_again_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "[ -e tried ] || {{ touch tried; echo 'address already in use' >&2; exit 1; }}\nexec {} serve \"$@\"",
        thruway()
    );
    program(directory.path(), "peers/target/release/bench-hyper", &script);
    let args = format!("{WITH_HYPER} --cases plaintext_c=256 --peers-from peers");
    let report = measured(directory.path(), &args);
    let candidates = &case(&report, "plaintext c=256")["candidates"];
    assert_eq!((&candidates[1]["name"], &candidates[1]["failure"]), (&"hyper".into(), &Value::Null));
    assert!(directory.path().join("tried").exists());
}

#[test]
fn a_server_that_dies_while_it_is_loaded_is_told_with_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    // It dies after a number of requests.
    let script = format!(
        "if [ \"$1\" = --version ]; then echo mortal; exit; fi\n{} \"$@\" & child=$!\n\
         while read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user _ < /proc/$child/stat && [ \"$user\" -lt 3 ]; do :; done\n\
         kill -9 $child; echo out of breath >&2; exit 9",
        thruway()
    );
    program(directory.path(), "mortal", &script);
    let args = "plaintext --cases plaintext_c=256 --rounds 2 --duration 4s --limit 9s --peers none";
    let ended = suite(directory.path(), &format!("{args} --program ./mortal --output json"));
    let report = json(&ended.stdout);
    let ours = &case(&report, "plaintext c=256")["candidates"][0];
    let failure = ours["failure"].as_str().unwrap();
    assert!(failure.contains("has ended: exit status: 9; it printed: out of breath"), "{failure}");
    assert!(report["environment"]["version"].as_str().unwrap().starts_with("mortal"), "{report}");
    assert!(matches!(ended.code, Some(1 | 2)), "{}", ended.stderr);
}

#[test]
fn an_interrupt_ends_the_suite_with_a_report_and_leaves_no_server() {
    let directory = tempfile::tempdir().unwrap();
    let note = program(directory.path(), "noted", &format!("echo $$ >> pids; exec {} \"$@\"", thruway()));
    let args = ["plaintext", "--duration", "10m", "--limit", "1h", "--peers", "none"];
    let args = [&args[..], &["--program", &note, "--output", "json"]].concat();
    let suite = Thruway::start_in(directory.path(), &args);
    suite.wait_for_thread("bench-0");
    suite.signal(Signal::INT);
    let ended = suite.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let report = json(&ended.stdout);
    assert_eq!(report["is_interrupted"], true);
    let left_out = report["left_out"].to_string();
    assert!(left_out.contains("it was interrupted before"), "{left_out}");
    let pids = fs::read_to_string(directory.path().join("pids")).unwrap();
    assert!(pids.lines().count() > 0);
    for pid in pids.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} was left");
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("other.json"), "{\"format\": \"x\"}").unwrap();
    for (args, message, hint) in [
        ("plainttext", "invalid value 'plainttext'", "'plaintext'"),
        ("", "<NAME>", "--help"),
        ("all --peers ngnix", "no peer is called `ngnix`", "did you mean `nginx`?"),
        ("all --cases c=17", "no case is called `c=17`", "there are `plaintext c=1`"),
        ("all --peers-from none", "there is no directory `none` with peers", "`--peers-from` is"),
        ("all --program other.json", "`other.json` is no program", ""),
        ("all --report other.json", "`other.json` cannot be written", ""),
        ("--from other.json", "`other.json` cannot be used", "`thruway-suite"),
        ("--from none.json", "`none.json` cannot be used", "`thruway-suite"),
        ("all --limit 0s", "it must be more than 0", ""),
        ("all --rounds 1", "1 is not in 2..=100", ""),
    ] {
        let ended = suite(directory.path(), args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: "), "{args}: {}", ended.stderr);
        assert!(ended.stderr.contains(message) && ended.stderr.contains(hint), "{args}: {}", ended.stderr);
    }
}

#[test]
fn options_of_measuring_are_refused_beside_a_report() {
    let directory = tempfile::tempdir().unwrap();
    for option in [
        "--rounds 6",
        "--cases a",
        "--duration 1s",
        "--limit 1m",
        "--peers none",
        "--peers-from peers",
        "--program a",
    ] {
        let ended = suite(directory.path(), &format!("--from a.json {option}"));
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{option}: {}", ended.stderr);
        let is_conflict = ended.stderr.contains("cannot be used with")
            && ended.stderr.contains(option.split(' ').next().unwrap());
        assert!(is_conflict, "{option}: {}", ended.stderr);
    }
}
