//! Values from the environment.

use std::fs;

use crate::client::get;
use crate::process::Thruway;

const CONFIG: &str = r#"
[[listeners]]
address = "127.0.0.1:${THRUWAY_TEST_PORT:-0}"
[[routes]]
path = "/${THRUWAY_TEST_PATH}"
answer = { content = "5 $$", fields = [{ name = "From", value = "${THRUWAY_TEST_PATH}" }] }
"#;

#[test]
fn texts_hold_values_of_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG).unwrap();
    let variables = [("THRUWAY_TEST_PATH", "here"), ("THRUWAY_TEST_PORT", "")];
    let mut thruway = Thruway::start_with(directory.path(), &["serve", "a.toml"], &variables);
    let response = get(&thruway.address(), "/here/a");
    assert_eq!((response.status(), response.text()), ("200", "5 $"));
    assert!(response.has("from: here"));
}

const TYPED: &str = r#"
workers = "${THRUWAY_TEST_WORKERS}"
batch_sends = "${THRUWAY_TEST_BATCH:-false}"
[[listeners]]
address = "127.0.0.1:0"
[[routes]]
path = "/"
answer = { status = "${THRUWAY_TEST_STATUS}", content = "${THRUWAY_TEST_WORKERS}" }
"#;

/// Once only texts could come from there.
#[test]
fn numbers_and_truth_values_come_from_the_environment_too() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), TYPED).unwrap();
    let variables = [("THRUWAY_TEST_WORKERS", "1"), ("THRUWAY_TEST_STATUS", "203")];
    let mut thruway = Thruway::start_with(directory.path(), &["serve", "a.toml"], &variables);
    let response = get(&thruway.address(), "/");
    assert_eq!((response.status(), response.text()), ("203", "1"));
}

#[test]
fn what_is_no_number_is_refused_where_it_is_filled_in_and_is_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), TYPED).unwrap();
    for (workers, status, message) in [
        ("many", "200", "invalid type: string, expected a whole number from 0 on"),
        ("true", "200", "invalid type: boolean `true`, expected a whole number from 0 on"),
        ("2000", "200", "the value must be from 1 to 1024"),
        ("1", "20 0", "invalid type: string, expected a whole number from 0 to 65535"),
        ("1", "99999", "invalid value: integer `99999`"),
    ] {
        let variables = [("THRUWAY_TEST_WORKERS", workers), ("THRUWAY_TEST_STATUS", status)];
        let ended = Thruway::start_with(directory.path(), &["check", "a.toml"], &variables).end();
        assert_eq!(ended.code, Some(2), "{workers}, {status}");
        assert!(ended.stderr.starts_with(&format!("error: {message}")), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("\"${THRUWAY_TEST_") && !ended.stderr.contains("many"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_not_in_the_environment_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG).unwrap();
    let ended = Thruway::start_in(directory.path(), &["check", "a.toml"]).end();
    let expected = "\
error: the environment variable `THRUWAY_TEST_PATH` is not set
 --> a.toml:5:8
  |
5 | path = \"/${THRUWAY_TEST_PATH}\"
  |        ^^^^^^^^^^^^^^^^^^^^^^^

hint: set it, or write a default: `${THRUWAY_TEST_PATH:-default}`
";
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("is not set").count(), 2);
}

#[test]
fn mistakes_in_filled_in_values_are_shown_where_they_are_filled_in() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG).unwrap();
    let variables = [("THRUWAY_TEST_PATH", "a b"), ("THRUWAY_TEST_PORT", "0")];
    let ended = Thruway::start_with(directory.path(), &["check", "a.toml"], &variables).end();
    let expected = "\
error: a path does not hold ` `
 --> a.toml:5:8
  |
5 | path = \"/${THRUWAY_TEST_PATH}\"
  |        ^^^^^^^^^^^^^^^^^^^^^^^
";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}
