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
