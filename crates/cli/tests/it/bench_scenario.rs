//! Tests of `thruway bench scenario`, with the example of the guide.

use std::fs;
use std::path::Path;

use crate::process::{Ended, Thruway};

const GUIDE: &str = include_str!("../../../../docs/guide/load-testing.md");

/// Returns the first code block of the language `language` below `## Scenarios` in the guide.
fn block(language: &str) -> &'static str {
    block_at(language, 1)
}

/// Returns the code block number `place`, counted from 1.
fn block_at(language: &str, place: usize) -> &'static str {
    let section = GUIDE.split("\n## ").find(|section| section.starts_with("Scenarios\n")).unwrap();
    let block = section.split(&format!("```{language}\n")).nth(place).unwrap();
    block.split("```").next().unwrap()
}

fn scenario(directory: &Path, args: &[&str]) -> Ended {
    Thruway::start_in(directory, &[&["bench", "scenario"], args].concat()).end()
}

#[test]
fn example_of_the_guide_reports_each_step() {
    let mut demo = Thruway::demo(&[]);
    let url = demo.address();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("shop.toml"), block("toml")).unwrap();
    fs::write(directory.path().join("users.csv"), block("csv")).unwrap();
    let load = ["shop.toml", "--url", &url, "-c", "4", "-n", "40"];
    let run = |args: &[&str]| scenario(directory.path(), &[&load[..], args].concat());

    let text = run(&["--fail-if", "step login: p99 > 1h"]);
    assert_eq!((text.code, &*text.stderr), (Some(0), ""), "{}", text.stdout);
    for part in ["40 completed, 0 failed, 0 cut off", "login             40", "orders            40"] {
        let is_there = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(is_there.contains(&part), "{part}: {}", text.stdout);
    }

    let json = run(&["--output", "json", "--rate", "200"]);
    let report = json.json();
    assert_eq!(json.code, Some(0), "{}", json.stderr);
    assert_eq!(
        (&report["iterations"]["completed"], &report["requests"]["answered"]),
        (&40.into(), &80.into())
    );
    assert_eq!(
        (&report["steps"][1]["name"], &report["steps"][1]["answered"]),
        (&"orders".into(), &40.into())
    );
    jsonschema::validate(&scenario(directory.path(), &["--schema"]).json(), &report).unwrap();

    let csv = run(&["--output", "csv"]).stdout;
    assert!(csv.contains(",step,login,") && csv.contains(",step,orders,"), "{csv}");
    assert!(run(&["--output", "markdown"]).stdout.contains("\n| login | 40 |"));
    let page = directory.path().join("page.html");
    assert_eq!(run(&["--html", "page.html"]).code, Some(0));
    assert!(fs::read_to_string(page).unwrap().contains("<td>orders</td>"));

    let violated = run(&["--fail-if", "step orders: max > 0s"]);
    assert_eq!(violated.code, Some(3));
    assert!(violated.stderr.starts_with("threshold violated: step orders: max > 0s"), "{}", violated.stderr);
    let staged = scenario(directory.path(), &["shop.toml", "--url", &url, "--stages", "100ms:2c"]);
    assert_eq!(staged.code, Some(0), "{}", staged.stderr);
}

#[test]
fn example_with_loops_repeats_its_steps() {
    let mut demo = Thruway::demo(&[]);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("browse.toml"), block_at("toml", 2)).unwrap();
    let url = demo.address();
    let args = ["browse.toml", "--url", &url, "-c", "5", "-n", "20", "--output", "json"];
    let ended = scenario(directory.path(), &args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report = ended.json();
    let answered = |part: &str| {
        let parts = report[part].as_array().unwrap();
        parts.iter().map(|part| part["answered"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((answered("steps"), answered("urls")), (vec![40, 120, 40], vec![80, 120]));
    assert_eq!(report["urls"][1]["url"], "GET /plaintext");
}

#[test]
fn help_describes_virtual_users() {
    let help = Thruway::start_in(Path::new("."), &["bench", "scenario", "--help"]).end().stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["Number of virtual users.", "Number of iterations to measure", "iterations per second (open loop)"]
    {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(!help.contains("Number of connections"), "{help}");
    let of_http = Thruway::start_in(Path::new("."), &["bench", "http", "--help"]).end().stdout;
    assert!(of_http.contains("Number of connections"), "{of_http}");
}

#[test]
fn errors_come_before_the_load() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("users.csv", block("csv"));
    write("shop.toml", &block("toml").replace("127.0.0.1:8080", "127.0.0.1:1"));
    write("wrong.toml", &block("toml").replace("{{ token }}", "{{ tokn }}"));
    for (args, message) in [
        (&["shop.toml"][..], "cannot connect to `127.0.0.1:1`"),
        (
            &["wrong.toml"],
            "error: `wrong.toml`, line 18, key `headers.Authorization`: unknown variable `tokn`",
        ),
        (&["none.toml"], "error: `none.toml`: cannot read it: "),
        (&["shop.toml", "--fail-if", "step pay: p99 > 1s"], "the scenario has no such step"),
        (&["shop.toml", "--fail-if", "stage 1: p99 > 1s"], "the load has no stages"),
        (&["shop.toml", "--pipeline", "2"], "a virtual user sends one request at a time"),
        (&["shop.toml", "-H", "Connection: close"], "the load generator sets this header itself"),
        (&["shop.toml", "--insecure"], "no URL uses TLS"),
        (&[], "required arguments were not provided"),
    ] {
        let refused = scenario(directory.path(), args);
        assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(message), "{args:?}: {}", refused.stderr);
    }
    let steps = scenario(directory.path(), &["shop.toml", "--fail-if", "step pay: p99 > 1s"]);
    assert!(steps.stderr.contains("hint: the steps are `login`, `orders`"), "{}", steps.stderr);
}
