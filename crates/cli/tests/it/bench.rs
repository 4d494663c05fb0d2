//! Tests of `thruway bench`: small real loads, and rejected command lines.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::Value;

use crate::process::{Ended, Signal, Thruway};

/// Starts the demo. Returns it with the URL of one of its paths.
fn demo(path: &str) -> (Thruway, String) {
    let mut demo = Thruway::demo(&[]);
    let url = format!("{}{path}", demo.address());
    (demo, url)
}

fn bench(args: &[&str]) -> Ended {
    Thruway::start_in(Path::new("."), &[&["bench"], args].concat()).end()
}

#[test]
fn report_is_available_in_every_output_format() {
    let (demo, url) = demo("/plaintext");
    let pid = demo.pid().as_raw_nonzero().to_string();
    let load = ["http", &url, "-n", "500", "-c", "4", "--workers", "2", "--pid", &pid];
    let run = |form: &str| bench(&[&load[..], &["--output", form]].concat());

    let text = run("text");
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    for part in
        ["achieved rate", "500 answered, 0 failed", "500 × 200", "p99.9", "CPU per request", "of memory"]
    {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    // No progress is shown if standard error is not a terminal.
    assert_eq!(text.stderr, "");

    let report = run("json").json();
    assert_eq!(report["format"], "thruway-bench/3");
    assert_eq!(report["requests"]["answered"], 500);
    assert_eq!(report["bytes"]["body_bytes"], 500 * 13);
    assert!(report["server"]["resident_max_bytes"].as_u64().unwrap() > 1 << 20);
    let schema = bench(&["http", "--schema"]);
    jsonschema::validate(&schema.json(), &report).unwrap();

    let csv = run("csv");
    // The last column holds warnings in quotes. It is ignored because a busy machine causes warnings.
    let columns = |line: &str| line.split('"').next().map(|line| line.split(',').count());
    let lines: Vec<_> = csv.stdout.lines().map(columns).collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{}", csv.stdout);
    assert!(run("markdown").stdout.contains("| time | p50 | p90 | p99 | p99.9 | max |"));
}

#[test]
fn responses_are_checked_for_status_length_and_sha256() {
    let (_demo, url) = demo("/echo");
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let good = [
        "http",
        &url,
        "-n",
        "50",
        "--content",
        "hello",
        "--length",
        "5",
        "--sha256",
        digest,
        "--status",
        "200",
    ];
    assert_eq!(bench(&good).code, Some(0));
    let pipelined = bench(&[&good[..], &["--pipeline", "8"]].concat());
    assert_eq!(pipelined.code, Some(0), "{}", pipelined.stdout);
    let closing = bench(&[&good[..], &["--no-keep-alive", "--output", "json"]].concat()).json();
    assert_eq!((&closing["connections"]["opened"], &closing["requests"]["failed"]), (&50.into(), &0.into()));

    let wrong = bench(&["http", &url, "-n", "50", "--content", "hello", "--length", "6", "--output", "json"]);
    let report = wrong.json();
    assert_eq!(wrong.code, Some(1));
    assert_eq!(report["errors"][0]["kind"], "wrong_length");
    assert_eq!(
        (&report["errors"][0]["count"], &report["errors"][0]["example"]),
        (&50.into(), &"5 bytes".into())
    );
}

#[test]
fn requests_from_a_file_are_sent_by_weight() {
    let (_demo, url) = demo("");
    let directory = tempfile::tempdir().unwrap();
    let lines = format!(
        "{{\"url\": \"{url}/plaintext?{{n}}\"}}\n{{\"url\": \"{url}/none\", \"status\": 404, \"weight\": 3}}\n"
    );
    fs::write(directory.path().join("requests.jsonl"), lines).unwrap();
    let args = ["bench", "http", "@requests.jsonl", "-n", "400", "--output", "json"];
    let ended = Thruway::start_in(directory.path(), &args).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    let report = ended.json();
    let missing = report["statuses"][1]["count"].as_u64().unwrap();
    assert!((250..350).contains(&missing), "{missing}");
}

#[test]
fn open_loop_reports_offered_and_achieved_rate() {
    let (_demo, url) = demo("/ok");
    let args = ["http", &url, "--rate", "300", "--poisson", "-d", "700ms", "--output", "json"];
    let report = bench(&args).json();
    assert_eq!(
        (&report["offered_requests_per_second"], &report["settings"]["pace"]),
        (&300.0.into(), &"poisson".into())
    );
    // The number of requests depends on the seed only, not on the speed of the machine.
    let requests =
        report["requests"]["answered"].as_u64().unwrap() + report["requests"]["failed"].as_u64().unwrap();
    assert!((160..260).contains(&requests), "{requests}");
    assert!(report["achieved_requests_per_second"].as_f64().unwrap() > 0.0);
}

/// Every load once used the same seed, so the second attempt of a step repeated the first exactly.
#[test]
fn poisson_arrivals_differ_unless_the_seed_is_fixed() {
    let (_demo, url) = demo("/ok");
    let http = ["http", &url, "--rate", "1000", "--poisson", "-d", "100ms", "--output", "json"];
    let due = |args: &[&str]| {
        let report = bench(&[&http[..], args].concat()).json();
        (report["due_requests_per_second"].clone(), report["settings"]["seed"].clone())
    };
    let first = due(&["--seed", "7"]);
    assert_eq!(first, due(&["--seed", "7"]));
    assert_eq!(first.1, 7);
    let seed = due(&[]).1.to_string();
    assert_eq!(due(&["--seed", &seed]).1.to_string(), seed);

    let ramp = ["ramp", &url, "-d", "50ms", "--rate", "1000", "--poisson", "--seed", "7", "--p99", "1ns"];
    let ramp = bench(&[&ramp[..], &["--output", "json"]].concat()).json();
    let [one, two] = [0, 1].map(|step| &ramp["steps"][step]);
    assert_eq!(one["offered_requests_per_second"], two["offered_requests_per_second"]);
    assert_ne!(one["due_requests_per_second"], two["due_requests_per_second"]);
    assert_eq!(ramp["seed"], 7);
}

#[test]
fn interrupt_ends_the_load_and_prints_the_report() {
    let (_demo, url) = demo("/ok");
    let bench = Thruway::start_in(Path::new("."), &["bench", "http", &url, "-d", "1h", "--output", "json"]);
    // The program handles signals by the time the load's thread exists.
    bench.wait_for_thread("bench-0");
    bench.signal(Signal::INT);
    let ended = bench.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(ended.json()["is_interrupted"], true);
}

#[test]
fn html_report_is_self_contained() {
    let (_demo, url) = demo("/ok");
    let directory = tempfile::tempdir().unwrap();
    let args = ["bench", "http", &url, "-n", "2000", "--html", "page.html"];
    assert_eq!(Thruway::start_in(directory.path(), &args).end().code, Some(0));
    let page = fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<svg ").count(), 3);
    assert!(!page.contains("NaN") && !page.contains("<script") && !page.contains("src="));
}

#[test]
fn compare_accepts_urls_and_commands_and_detects_regressions() {
    let (_demo, url) = demo("/ok");
    let other = url.replace("/ok", "/plaintext");
    let directory = tempfile::tempdir().unwrap();
    let load = ["-n", "200", "--rounds", "4", "--output", "json"];
    let two =
        Thruway::start_in(directory.path(), &[&["bench", "compare", &url, &other], &load[..]].concat()).end();
    let comparison = two.json();
    assert_eq!(two.code, Some(0), "{}", two.stderr);
    assert_eq!(comparison["candidates"][1]["rounds"].as_array().unwrap().len(), 4);
    assert_eq!(comparison["pairs"].as_array().unwrap().len(), 3);
    let schema = bench(&["compare", "--schema"]);
    jsonschema::validate(&schema.json(), &comparison).unwrap();

    let csv = ["compare", &url, &other, "-n", "50", "--rounds", "2", "--output", "csv"];
    assert_eq!(bench(&csv).stdout.lines().count(), 1 + 2 * 2);

    let program = env!("CARGO_BIN_EXE_thruway");
    let socket = directory.path().join("a.sock");
    let socket = socket.display();
    let started = format!("http://unix:{socket}:/ok -- {program} serve --listen unix:{socket}");
    fs::write(directory.path().join("before.json"), &two.stdout).unwrap();
    let args = [&["bench", "compare", &started, "--baseline", "one.json"], &load[..]].concat();
    let mut one = comparison;
    one["candidates"].as_array_mut().unwrap().truncate(1);
    // No machine reaches this rate, so the comparison finds a regression.
    for round in one["candidates"][0]["rounds"].as_array_mut().unwrap() {
        round["achieved_requests_per_second"] = 1e9.into();
        // A busy machine may have marked this round as late.
        round["is_generator_late"] = Value::Null;
    }
    fs::write(directory.path().join("one.json"), one.to_string()).unwrap();
    let ended = Thruway::start_in(directory.path(), &args).end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("regression: requests/s of http://unix:"), "{}", ended.stderr);
    assert!(ended.json()["candidates"][0]["rounds"][0]["server_cpu_us_per_request"].as_f64().unwrap() > 0.0);
    assert_eq!(ended.json()["settings"]["connections"], 16);
    // Three rounds are too few to show a regression.
    let few = ["bench", "compare", &url, "--baseline", "one.json", "--rounds", "3"];
    let few = Thruway::start_in(directory.path(), &few).end();
    assert_eq!((few.code, &*few.stdout), (Some(2), ""));
    assert!(
        few.stderr.contains("3 new rounds and 4 rounds of `")
            && few.stderr.contains("hint: use at least four"),
        "{}",
        few.stderr
    );
}

/// `compare` once rejected the JSON of `bench http` without naming the command that writes a baseline.
#[test]
fn report_of_bench_http_can_be_a_baseline() {
    let (_demo, url) = demo("/ok");
    let directory = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Thruway::start_in(directory.path(), &[&["bench"], args].concat()).end();
    let report = run(&["http", &url, "-c", "2", "-d", "2s", "--output", "json"]);
    fs::write(directory.path().join("before.json"), &report.stdout).unwrap();
    let load = ["-c", "2", "-n", "40", "--rounds", "4", "--tolerance", "99", "--output", "json"];
    let ended = run(&[&["compare", &url, "--baseline", "before.json"], &load[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let pair = &ended.json()["pairs"][0];
    assert_eq!(
        (&pair["metric"], &pair["is_paired"]),
        (&"achieved_requests_per_second".into(), &false.into())
    );
    let other_load = run(&["compare", &url, "--baseline", "before.json", "-c", "1"]);
    assert!(other_load.stderr.contains("connections: 1 instead of 2"), "{}", other_load.stderr);

    fs::write(directory.path().join("none.json"), "{}").unwrap();
    let refused = run(&["compare", &url, "--baseline", "none.json"]);
    assert_eq!(refused.code, Some(2));
    for part in
        ["it has no `format`", "`thruway bench compare … --output json` prints a baseline", "bench http"]
    {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}

/// The library that prints the help once replaced `{n}` by a line break.
#[test]
fn help_shows_placeholders_literally() {
    let help = |command: &str| bench(&[command, "--help"]).stdout;
    assert!(help("http").contains("\n  {n}       Number of the request"), "{}", help("http"));
    assert!(help("http").contains("http://127.0.0.1:8080/item/{n}\","), "{}", help("http"));
    assert!(help("mcp").contains("\n  {n}       Number of the request"), "{}", help("mcp"));
}

/// `thruway-suite -d 5` once needed a unit, and the help of each command had other words.
#[test]
fn duration_has_the_same_form_and_help_in_each_command() {
    for command in ["http", "scenario", "compare", "ramp", "mcp", "wrk"] {
        let help = bench(&[command, "--help"]).stdout;
        let help: Vec<_> = help.split_whitespace().collect();
        let text = "Duration of each measurement, such as `500ms`, `10s` or `2m`; a number without a unit is in seconds";
        assert!(help.join(" ").contains(text), "{command}: {}", help.join(" "));
    }
    // No server listens on port 1. The error shows that the command accepts the duration.
    let url = "http://127.0.0.1:1/";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.toml");
    fs::write(&file, "[[steps]]\nname = 'a'\nurl = '/'\n").unwrap();
    let scenario = ["scenario", file.to_str().unwrap(), "--url", "http://127.0.0.1:1"];
    let others = [&["http", url][..], &["compare", url, url], &["ramp", url], &["mcp", url], &["wrk", url]];
    for args in [&scenario[..]].into_iter().chain(others) {
        let refused = bench(&[args, &["-d", "5"]].concat());
        assert!(refused.stderr.contains("cannot connect"), "{args:?}: {}", refused.stderr);
        let zero = bench(&[args, &["-d", "0"]].concat());
        assert!(zero.stderr.contains("must be more than 0"), "{args:?}: {}", zero.stderr);
    }
}

/// Appends each option of `command` and of its subcommands that takes a time, such as `bench http --duration`.
fn collect_time_options(command: &[&str], found: &mut Vec<(Vec<String>, String)>) {
    let help = Thruway::start_in(Path::new("."), &[command, &["--help"]].concat()).end().stdout;
    for line in help.lines().map(str::trim) {
        if let Some((flags, _)) = line.split_once(" <TIME>") {
            let flag = flags.rsplit(' ').next().unwrap();
            found.push((command.iter().map(|word| (*word).to_owned()).collect(), flag.to_owned()));
        }
    }
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or("");
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        collect_time_options(&[command, &[name]].concat(), found);
    }
}

#[test]
fn time_without_unit_is_accepted_by_each_command() {
    let mut found = Vec::new();
    collect_time_options(&[], &mut found);
    let names: Vec<_> = found.iter().map(|(command, flag)| format!("{} {flag}", command.join(" "))).collect();
    for name in
        ["bench http --duration", "bench scenario --timeout", "bench ramp --p99", "mcp call --timeout"]
    {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    for (command, flag) in found {
        // The option occurs twice, which is an error, so that no command runs. The parser of arguments reports the
        // first error.
        let refused = |time| {
            let args = command.iter().map(String::as_str).chain([&*flag, time, &*flag, time]);
            let ended = Thruway::start_in(Path::new("."), &args.collect::<Vec<_>>()).end();
            assert_eq!(ended.code, Some(2), "{command:?} {flag}: {}", ended.stdout);
            ended.stderr
        };
        assert!(refused("5x").contains("invalid value '5x'"), "{command:?}: {}", refused("5x"));
        assert!(!refused("5").contains("invalid value"), "{command:?}: {}", refused("5"));
    }
}

#[test]
fn load_without_successful_responses_has_no_per_request_figures() {
    let (demo, url) = demo("/ok");
    let pid = demo.pid().as_raw_nonzero().to_string();
    let args = ["http", &url, "-n", "20", "-c", "1", "--status", "201", "--pid", &pid];
    let ended = bench(&args);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stdout.matches("– CPU per request").count(), 2, "{}", ended.stdout);
    assert!(!ended.stdout.contains("received"), "{}", ended.stdout);
    let json = bench(&[&args[..], &["--output", "json"]].concat()).json();
    assert!(json["generator"]["cpu_us_per_request"].is_null(), "{json}");
    jsonschema::validate(&bench(&["http", "--schema"]).json(), &json).unwrap();
}

/// The error message once showed the password in the URL.
#[test]
fn error_masks_the_password_in_a_url() {
    let refused = bench(&["http", "http://bob:sesame@127.0.0.1:1/"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("`http://**********@127.0.0.1:1/`"), "{}", refused.stderr);
}

/// A baseline without any matching candidate once passed silently. So did a baseline with other load
/// settings.
#[test]
fn baseline_with_other_servers_or_other_settings_is_an_error() {
    let (_demo, url) = demo("/ok");
    let directory = tempfile::tempdir().unwrap();
    let load = ["-n", "40", "-c", "2", "--rounds", "4", "--output", "json"];
    let compare = |args: &[&str]| {
        Thruway::start_in(directory.path(), &[&["bench", "compare"], args, &load[..]].concat()).end()
    };
    let before = compare(&[&url, &url.replace("/ok", "/plaintext")]);
    assert_eq!(before.code, Some(0), "{}", before.stderr);
    let write = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut baseline = before.json();
        change(&mut baseline);
        fs::write(directory.path().join(name), baseline.to_string()).unwrap();
    };
    write("same.json", &|_| {});
    write("others.json", &|baseline| {
        baseline["candidates"][0]["name"] = "http://a/".into();
        baseline["candidates"][1]["name"] = "http://b/".into();
    });
    write("gentle.json", &|baseline| {
        baseline["settings"]["connections"] = 1.into();
        baseline["settings"]["requests_per_second"] = 10.0.into();
    });
    write("failed.json", &|baseline| baseline["candidates"][0]["rounds"][1]["failed"] = 1.into());
    write("old.json", &|baseline| {
        baseline.as_object_mut().unwrap().remove("settings");
    });
    for (name, message, hint) in [
        (
            "others.json",
            "the baseline has no server with one of these URLs",
            "pass the URLs of the baseline, because a URL identifies a server",
        ),
        (
            "gentle.json",
            "other settings: rate: any instead of 10, connections: 2 instead of 1",
            "another baseline",
        ),
        ("failed.json", "failed in the baseline", "use a baseline without failed requests"),
    ] {
        let refused = compare(&[&url, "--baseline", name]);
        assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{}", refused.stderr);
        assert!(refused.stderr.contains(message) && refused.stderr.contains(hint), "{}", refused.stderr);
    }
    for (name, is_warned) in [("same.json", false), ("old.json", true)] {
        let ended = compare(&[&url, "--baseline", name, "--tolerance", "99"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(
            ended.stderr.contains("the baseline does not contain its load settings"),
            is_warned,
            "{}",
            ended.stderr
        );
    }
}

/// The second server once failed to listen, and the program compared the first server with itself.
#[test]
fn two_commands_on_one_address_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("a.sock").display().to_string();
    let program = env!("CARGO_BIN_EXE_thruway");
    let started =
        |path: &str| format!("http://unix:{socket}:{path} -- {program} serve --listen unix:{socket}");
    let ended = bench(&["compare", &started("/ok"), &started("/plaintext"), "-n", "10", "--rounds", "2"]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(&format!("another process listens on unix:{socket} already")),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("hint: give each command an unused port"), "{}", ended.stderr);
}

/// If the started command has ended, the requests reach some other process.
#[test]
fn early_exit_of_a_compared_command_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let program = env!("CARGO_BIN_EXE_thruway");
    let [first, second] = ["a.sock", "b.sock"].map(path);
    // This script ends when the other server has started. Its own server keeps running.
    let script = format!("{program} serve --listen unix:{first} & while [ ! -S {second} ]; do :; done");
    fs::write(path("leaving.sh"), script).unwrap();
    let leaving = format!("http://unix:{first}:/ok -- sh {}", path("leaving.sh"));
    let other = format!("http://unix:{second}:/ok -- {program} serve --listen unix:{second}");
    let ended = bench(&["compare", &leaving, &other, "-d", "300ms", "--rounds", "4", "--output", "json"]);
    assert!(matches!(ended.code, Some(1 | 2)), "{}", ended.stdout);
    assert!(ended.stderr.contains("leaving.sh` has ended: exit status: 0"), "{}", ended.stderr);
}

/// When a server failed in the ninth round, all earlier results were once lost.
#[test]
fn finished_rounds_are_reported_if_a_server_goes_away() {
    let (_demo, url) = demo("/ok");
    let dying = server_that_closes_after(100);
    let load = ["-n", "10", "-c", "1", "--rounds", "30", "--output", "json"];
    let ended = bench(&[&["compare", &url, &dying], &load[..]].concat());
    let comparison = ended.json();
    let rounds = comparison["candidates"][1]["rounds"].as_array().unwrap();
    assert_eq!((ended.code, rounds.len()), (Some(1), 10), "{}", ended.stderr);
    assert!(ended.stderr.contains("error: cannot connect to"), "{}", ended.stderr);
    assert_eq!(comparison["pairs"].as_array().unwrap().len(), 3);

    let dying = server_that_closes_after(100);
    let ramp = ["ramp", &dying, "-c", "1", "-n", "20", "--rate", "1000", "--p99", "1m", "--output", "json"];
    let ended = bench(&ramp);
    let steps = ended.json()["steps"].as_array().map(Vec::len);
    assert_eq!((ended.code, steps), (Some(1), Some(5)), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("error: cannot connect to"), "{}", ended.stderr);
}

/// Starts a server that closes after this number of requests and serves one connection at a time. Returns its
/// URL.
fn server_that_closes_after(requests: u32) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut left = requests;
        while left > 0 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            while left > 0 && stream.read(&mut request).is_ok_and(|read| read > 0) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                left -= 1;
            }
        }
    });
    url
}

/// After a second interrupt, the programs that the comparison had started once kept running.
#[test]
fn second_interrupt_kills_started_commands() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let serve = format!("{} serve --listen unix:{}", env!("CARGO_BIN_EXE_thruway"), path("a.sock").display());
    // The server ends on SIGTERM, but the shell that started it ignores the signal.
    let script = "trap '' TERM; $SERVE & echo $$ > pid; wait; touch ended; while :; do sleep 60; done";
    fs::write(path("stubborn.sh"), script.replace("$SERVE", &serve)).unwrap();
    let url = format!("http://unix:{}:/ok", path("a.sock").display());
    let started = format!("{url} -- sh stubborn.sh");
    let args = ["bench", "compare", &started, &url, "-d", "1h", "--rounds", "2"];
    let bench = Thruway::start_in(directory.path(), &args);
    bench.wait_for_thread("bench-0");
    bench.signal(Signal::INT);
    while !path("ended").exists() {
        thread::yield_now();
    }
    bench.signal(Signal::INT);
    let ended = bench.end_unread();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let stat = format!("/proc/{}/stat", fs::read_to_string(path("pid")).unwrap().trim());
    // A killed process may take a moment to end, and then remains a zombie until its new parent collects it.
    let is_running = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    assert!((0..100_000).any(|_| !is_running()), "the started process still runs");
}

#[test]
fn ramp_lowers_the_rate_after_failed_steps() {
    let (_demo, url) = demo("/ok");
    // Every machine reaches the first rates, but none reaches a p99 of one nanosecond.
    let args = ["ramp", &url, "-d", "50ms", "--rate", "100", "--p99", "1ns", "--output", "json"];
    let ended = bench(&args);
    let ramp = ended.json();
    assert_eq!(
        (ended.code, &ramp["highest_requests_per_second"]),
        (Some(1), &Value::Null),
        "{}",
        ended.stderr
    );
    let rates: Vec<_> =
        ramp["steps"].as_array().unwrap().iter().map(|step| &step["offered_requests_per_second"]).collect();
    assert_eq!(rates[..4], [100.0, 100.0, 50.0, 50.0]);
    jsonschema::validate(&bench(&["ramp", "--schema"]).json(), &ramp).unwrap();
}

#[test]
fn wrk_and_ab_command_lines_are_accepted() {
    let (_demo, url) = demo("/ok");
    let wrk = bench(&["wrk", "-t2", "-c4", "-d500ms", "--latency", &url]);
    assert!(
        wrk.code == Some(0) && wrk.stdout.contains("4 connections, 2 workers, closed loop"),
        "{}",
        wrk.stderr
    );
    // A number without a unit means seconds, as with wrk.
    let wrk = bench(&["wrk", "-t1", "-c2", "-d1", "--timeout", "3", &url]);
    // A busy machine may take a little longer than one second.
    let seconds = wrk.stdout.split_once("closed loop, ").and_then(|(_, rest)| rest.split_once(" s\n"));
    let seconds: Option<f64> = seconds.and_then(|(seconds, _)| seconds.parse().ok());
    assert!(
        wrk.code == Some(0) && seconds.is_some_and(|seconds| (1.0..60.0).contains(&seconds)),
        "{}{}",
        wrk.stdout,
        wrk.stderr
    );
    let ab = bench(&["ab", "-n", "50", "-c", "5", &url]);
    assert!(ab.code == Some(0) && ab.stdout.contains("50 opened"), "{}{}", ab.stdout, ab.stderr);
    let ab = bench(&["ab", "-k", "-n", "50", "-c", "5", &url]);
    assert!(ab.code == Some(0) && ab.stdout.contains("5 opened"), "{}{}", ab.stdout, ab.stderr);
}

/// This common wrk command line was once rejected because of its `Connection: keep-alive`.
#[test]
fn wrk_and_ab_options_behave_as_in_the_original_tools() {
    let (_demo, url) = demo("/ok");
    let keeps = bench(&["wrk", "-c2", "-t1", "-d500ms", "-H", "Connection: keep-alive", &url]);
    assert!(keeps.code == Some(0) && keeps.stdout.contains("2 opened"), "{}{}", keeps.stdout, keeps.stderr);
    let closes = bench(&["wrk", "-c2", "-t1", "-d500ms", "-H", "connection: close", &url]);
    assert!(closes.code == Some(0), "{}", closes.stderr);
    assert!(closes.stdout.contains("a connection for each request"), "{}", closes.stdout);

    let head = ["ab", "-q", "-r", "-l", "-i", "-k", "-n", "20", "-C", "a=b", "-C", "c=d", &url];
    let head = bench(&head);
    assert!(head.code == Some(0) && head.stdout.contains("20 answered, 0 failed"), "{}", head.stderr);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("content"), "hello").unwrap();
    let echo = url.replace("/ok", "/echo");
    let put = ["bench", "ab", "-k", "-n", "20", "-u", "content", "-T", "text/plain", &echo];
    let put = Thruway::start_in(directory.path(), &put).end();
    assert!(put.code == Some(0) && put.stdout.contains("20 answered, 0 failed"), "{}", put.stderr);
}

/// A server that stalled near the end once went unnoticed: the exit code was 0, without a warning. So did a
/// server that had sent only few responses on each connection.
#[test]
fn stalled_server_fails_the_load() {
    for (connections, answers) in [(2, 50), (16, 100)] {
        assert_stalled(connections, answers);
    }
}

fn assert_stalled(connections: u32, answers: u32) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answered = Arc::new(AtomicU32::new(0));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answered = answered.clone();
            thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    // After `answers` responses, the server keeps its connections open without responding.
                    if answered.fetch_add(1, Ordering::Relaxed) < answers {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    }
                }
            });
        }
    });
    let count = connections.to_string();
    let ended = bench(&["http", &url, "-d", "1500ms", "-c", &count, "--output", "json"]);
    let report = ended.json();
    assert_eq!((ended.code, &report["is_stalled"]), (Some(1), &true.into()), "{report}");
    assert!(report["response_time"]["max_us"].as_f64().unwrap() > 500_000.0, "{report}");
    assert_eq!(report["requests"]["cut_off"], connections);
}

/// The command once ran the whole load before it reported that the stage does not exist.
#[test]
fn condition_on_a_missing_stage_fails_before_the_load() {
    // No server listens on port 1, so the check must come before the first connection.
    let url = "http://127.0.0.1:1/";
    let two = ["--stages", "1h:5,1h:10"];
    let condition = ["--fail-if", "p99 > 1s", "--fail-if", "stage 9: p99 > 20ms"];
    for args in [&["http", url][..], &["compare", url, url], &["mcp", url]] {
        let refused = bench(&[args, &two, &condition].concat());
        assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{args:?}: {}", refused.stderr);
        let message = "the condition `stage 9: p99 > 20ms` can never be checked: the load has only 2 stages";
        assert!(refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("hint: use a stage from 1 to 2"), "{args:?}: {}", refused.stderr);
    }
    for args in [&["http", url][..], &["ramp", url], &["wrk", url], &["ab", url]] {
        let refused = bench(&[args, &condition].concat());
        assert!(refused.stderr.contains("the load has no stages"), "{args:?}: {}", refused.stderr);
    }
}

#[test]
fn impossible_loads_are_errors_with_a_hint() {
    let (_demo, url) = demo("/ok");
    let elsewhere = "http://127.0.0.1:1/";
    for (args, message, hint) in [
        (
            vec!["http", elsewhere],
            "cannot connect to `127.0.0.1:1`: connection refused",
            "check that the server runs and uses this port",
        ),
        (
            vec!["http", "http://unix:/none.sock"],
            "the Unix socket does not exist",
            "check that the server runs and uses this socket",
        ),
        (vec!["http", "127.0.0.1:80"], "the URL has no scheme", "add `http://` before it"),
        (
            vec!["http", "https://localhost/", "--ca", "none.pem"],
            "cannot read `none.pem`",
            "may read the file",
        ),
        (
            vec!["mcp", "https://localhost/mcp", "--ca", "none.pem"],
            "cannot read `none.pem`",
            "may read the file",
        ),
        (vec!["http", "http://none.invalid/"], "cannot resolve `none.invalid`", "the spelling of the name"),
        (vec!["http", &url, elsewhere], "are different servers", "`thruway bench compare`"),
        (
            vec!["http", &url, "-c", "2", "-w", "3"],
            "3 workers cannot share 2 connections",
            "fewer `--workers`",
        ),
        (
            vec!["http", &url, "-c", "4000000000"],
            "file descriptors, but the limit of this process is",
            "`ulimit -n",
        ),
        (vec!["http", &url, "-H", "Broken"], "`-H` number 1 is not a header", "`Name: value`"),
        (
            vec!["http", &url, "-H", "Content-Length: 5"],
            "the load generator sets the header",
            "`Content-Length` follows from the body; use `--no-keep-alive` for `Connection: close`",
        ),
        (vec!["wrk", "-c2", "-t3", &url], "3 threads cannot share 2 connections", "lower `-t`"),
        (vec!["wrk", "-s", "a.lua", &url], "scripts are not supported", "use `thruway bench http`"),
        (vec!["http", &url, "--ca", "none.pem"], "no URL uses TLS", "`https://`"),
        (vec!["http", &url, "--insecure"], "no URL uses TLS", "`https://`"),
        (vec!["ramp", &url, "--tls", "1.3"], "no URL uses TLS", "`https://`"),
        (vec!["mcp", &url, "--full-handshakes"], "no URL uses TLS", "`https://`"),
        (vec!["compare", &url, &url, "--classical-key-exchange"], "no URL uses TLS", "`https://`"),
        (
            vec!["http", &url, "-n", "18446744073709551615", "--rate", "1"],
            "18446744073709551615 requests at 1 per second take more than a year",
            "a higher `--rate`",
        ),
        (vec!["http", &url, "--pid", "4000000000"], "there is no process 4000000000", "`--pid` is"),
        (vec!["compare", &url, &url, "--content", "-"], "can be read only once", "`--content @FILE`"),
        (vec!["compare", &url], "compare needs a second target", "`--baseline`"),
        (
            vec!["compare", &url, "--baseline", "Cargo.toml"],
            "cannot use the baseline `Cargo.toml`",
            "--output json",
        ),
    ] {
        let ended = bench(&args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(message), "{}", ended.stderr);
        assert!(ended.stderr.contains("\nhint: ") && ended.stderr.contains(hint), "{}", ended.stderr);
    }
}

#[test]
fn invalid_arguments_fail_before_any_connection() {
    for args in [
        &["http"][..],
        &["http", "http://a/", "--poisson"],
        &["http", "http://a/", "--rate", "1", "--seed", "1"],
        &["http", "http://a/", "--rate", "0"],
        &["http", "http://a/", "--rate", "fast"],
        &["http", "http://a/", "-d", "0s"],
        &["http", "http://a/", "-d", "1s", "-n", "5"],
        &["http", "http://a/", "-n", "0"],
        &["http", "http://a/", "--warm-up", "18446744073709551615s"],
        &["ab", "-i", "-m", "GET", "http://a/"],
        &["http", "http://a/", "-c", "0"],
        &["http", "http://a/", "--no-keep-alive", "--pipeline", "2"],
        &["http", "http://a/", "--sha256", "abc"],
        &["http", "http://a/", "--status", "100"],
        &["compare", "http://a/", "http://b/", "--rounds", "1"],
        &["compare", "http://a/", "http://b/", "--tolerance", "3"],
    ] {
        let ended = bench(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        assert!(ended.stderr.starts_with("error: "), "{args:?}: {}", ended.stderr);
        // The arguments caused the error, not the missing server.
        assert!(ended.stderr.contains("--help"), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn killed_server_is_reported_as_failed_requests() {
    let (demo, url) = demo("/ok");
    let directory = tempfile::tempdir().unwrap();
    let args = ["bench", "http", &url, "-d", "1500ms", "--warm-up", "0s", "--output", "json"];
    let bench = Thruway::start_in(directory.path(), &args);
    demo.signal(Signal::KILL);
    let ended = bench.end();
    drop(demo);
    // The server may have ended before the first connection.
    assert!(matches!(ended.code, Some(1 | 2)), "{}", ended.stdout);
    if ended.code == Some(1) {
        assert!(ended.json()["requests"]["failed"].as_u64().unwrap() > 0);
    }
}

#[test]
fn violated_thresholds_are_named_and_change_the_exit_code() {
    let (_demo, url) = demo("/plaintext");
    let load = ["http", &url, "-n", "50", "--fail-if"];
    let kept =
        bench(&[&load[..], &["p99 > 1h", "--fail-if", "errors > 0%", "--fail-if", "rate < 1"]].concat());
    assert_eq!((kept.code, kept.stderr.as_str()), (Some(0), ""));

    let violated =
        bench(&[&load[..], &["max > 0s", "--fail-if", "failed > 0", "--fail-if", "rate >= 0"]].concat());
    assert_eq!(violated.code, Some(3), "{}", violated.stderr);
    assert!(violated.stdout.contains("50 answered"), "{}", violated.stdout);
    let lines: Vec<_> = violated.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", violated.stderr);
    assert!(lines[0].starts_with("threshold violated: max > 0s (max is "), "{}", lines[0]);
    assert!(lines[1].starts_with("threshold violated: rate >= 0 (rate is "), "{}", lines[1]);

    // Each response has another status than expected, so all requests fail.
    let failed = ["wrk", &url, "-d", "1", "-c", "2", "--fail-if", "errors >= 100%"];
    assert_eq!(bench(&failed).code, Some(0), "no request of `wrk` fails");
    let failed = bench(&["http", &url, "-n", "5", "--status", "404", "--fail-if", "errors >= 100%"]);
    assert_eq!(failed.code, Some(3), "{}", failed.stderr);
    assert_eq!(failed.stderr, "threshold violated: errors >= 100% (errors is 100%)\n");

    let compared = bench(&["compare", &url, &url, "--rounds", "2", "-n", "20", "--fail-if", "max > 0s"]);
    assert_eq!(compared.code, Some(3), "{}", compared.stderr);
    assert!(
        compared.stderr.contains(&format!("by {url} in round 2: max > 0s (max is ")),
        "{}",
        compared.stderr
    );

    let wrong = bench(&["http", &url, "--fail-if", "p99 > 20"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("invalid value `20`: expected a time with a unit"), "{}", wrong.stderr);
}

#[test]
fn json_has_the_outcome_of_each_threshold() {
    let (_demo, url) = demo("/plaintext");
    let conditions = ["--fail-if", "max > 0s", "--fail-if", "errors > 0.3%", "--output", "json", "-c", "1"];
    let ended = |args: &[&str]| {
        let ended = bench(&[args, &conditions].concat());
        assert_eq!(ended.code, Some(3), "{args:?}: {}", ended.stderr);
        let json = ended.json();
        jsonschema::validate(&bench(&[args[0], "--schema"]).json(), &json).unwrap();
        json
    };
    let of_http = ended(&["http", &url, "-n", "20"]);
    let of_compare = ended(&["compare", &url, &url, "--rounds", "2", "-n", "20"]);
    let of_ramp = ended(&["ramp", &url, "-d", "50ms", "--rate", "5000", "--p99", "10s"]);
    let of_round = &of_compare["candidates"][1]["rounds"][1]["thresholds"];
    for thresholds in [&of_http["thresholds"], of_round, &of_ramp["thresholds"]] {
        assert_eq!(
            (&thresholds[0]["condition"], &thresholds[0]["unit"], &thresholds[0]["is_violated"]),
            (&"max > 0s".into(), &"us".into(), &true.into())
        );
        assert!(thresholds[0]["value"].as_f64().unwrap() > 0.0, "{thresholds}");
        assert_eq!(
            (&thresholds[1]["value"], &thresholds[1]["limit"], &thresholds[1]["unit"]),
            (&0.0.into(), &0.3.into(), &"percent".into())
        );
        assert_eq!(thresholds[1]["is_violated"], false);
    }
    let text = bench(&["http", &url, "-n", "20", "--fail-if", "errors > 1%"]).stdout;
    assert!(text.contains("\nthresholds\nerrors > 1%    not violated: errors is 0%\n"), "{text}");
}

/// The example of the guide, with shorter stages.
#[test]
fn stages_change_the_load_and_have_thresholds() {
    let (_demo, url) = demo("/plaintext");
    let stages = "100ms:500,100ms:500,0s:1000,100ms:1000";
    let load = ["http", &url, "--stages", stages, "--poisson", "--seed", "7", "--output", "json"];
    let ended =
        bench(&[&load[..], &["--fail-if", "stage 4: p99 > 0s", "--fail-if", "stage 1: p99 > 1h"]].concat());
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("threshold violated: stage 4: p99 > 0s (p99 is "), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let report = ended.json();
    assert_eq!(
        (&report["settings"]["stages"], &report["settings"]["pace"]),
        (&stages.into(), &"stages".into())
    );
    let numbers: Vec<_> =
        report["stages"].as_array().unwrap().iter().map(|stage| stage["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 4]);
    jsonschema::validate(&bench(&["http", "--schema"]).json(), &report).unwrap();

    let closed = bench(&["http", &url, "--stages", "100ms:8c,100ms:2c"]);
    assert_eq!(closed.code, Some(0), "{}", closed.stderr);
    assert!(closed.stdout.contains("8 connections, 1 worker, closed loop with stages"), "{}", closed.stdout);
    assert!(closed.stdout.contains("8 → 2 conn."), "{}", closed.stdout);

    for (args, error) in [
        (&["http", &url, "--stages", "1s"][..], "expected `DURATION:TARGET`, such as `30s:100`"),
        (&["http", &url, "--stages", "1s:10", "--rate", "5"], "cannot be used with"),
        (&["http", &url, "--stages", "1s:10", "-d", "5s"], "cannot be used with"),
        (&["http", &url, "--stages", "1s:10c", "--poisson"], "have no random start times"),
        (&["ramp", &url, "--stages", "1s:10"], "does not accept `--stages`"),
        (&["mcp", "--stages", "1s:10c", "--", "true"], "stages cannot change the connections"),
    ] {
        let ended = bench(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(error), "{args:?}: {}", ended.stderr);
    }
}
