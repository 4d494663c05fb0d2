//! Tests of environment variables in a config.

use std::fs;

use crate::client::{Client, get};
use crate::process::Thruway;

const CONFIG: &str = r#"
[[listeners]]
address = "127.0.0.1:${THRUWAY_TEST_PORT:-0}"
[[routes]]
path = "/${THRUWAY_TEST_PATH}"
respond = { body = "5 $$", headers = [{ name = "From", value = "${THRUWAY_TEST_PATH}" }] }
"#;

#[test]
fn environment_variables_are_substituted_in_strings() {
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
respond = { status = "${THRUWAY_TEST_STATUS}", body = "${THRUWAY_TEST_WORKERS}" }
"#;

/// Environment variables could once set only strings.
#[test]
fn environment_variables_set_numbers_and_booleans() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), TYPED).unwrap();
    let variables = [("THRUWAY_TEST_WORKERS", "1"), ("THRUWAY_TEST_STATUS", "203")];
    let mut thruway = Thruway::start_with(directory.path(), &["serve", "a.toml"], &variables);
    let response = get(&thruway.address(), "/");
    assert_eq!((response.status(), response.text()), ("203", "1"));
}

#[test]
fn invalid_number_from_variable_is_an_error_without_its_value() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), TYPED).unwrap();
    for (workers, status, message) in [
        ("many", "200", "invalid type: string, expected a whole number of at least 0"),
        (
            "true",
            "200",
            "invalid type: boolean `${THRUWAY_TEST_WORKERS}`, expected a whole number of at least 0",
        ),
        ("2000", "200", "the value must be from 1 to 1024"),
        ("1", "20 0", "invalid type: string, expected a whole number from 0 to 65535"),
        ("1", "99999", "invalid value: integer `${THRUWAY_TEST_STATUS}`"),
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
fn unset_variable_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG).unwrap();
    let ended = Thruway::start_in(directory.path(), &["check", "a.toml"]).end();
    let expected = "\
error: the environment variable `THRUWAY_TEST_PATH` is not set
 --> a.toml:5:8
  |
5 | path = \"/${THRUWAY_TEST_PATH}\"
  |        ^^^^^^^^^^^^^^^^^^^^^^^

hint: set the variable before the start, or write a default if the value is not secret: `${THRUWAY_TEST_PATH:-default}`
";
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("is not set").count(), 2);
}

/// Regression test: the hint suggested a default, but a config must not contain the default of a secret.
#[test]
fn error_names_an_unset_variable_in_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[upstreams.a]\nservers = [\"127.0.0.1:1\"]\n\
                  sticky = { cookie = \"a\", secret = \"${THRUWAY_TEST_SECRET}\" }\n";
    fs::write(directory.path().join("a.toml"), config).unwrap();
    let ended = Thruway::start_in(directory.path(), &["check", "a.toml"]).end();
    assert_eq!(ended.code, Some(2));
    let message = "error: the environment variable `THRUWAY_TEST_SECRET` is not set\n";
    assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nhint: set the variable before the start\n"), "{}", ended.stderr);
    assert!(!ended.stderr.contains(":-"), "{}", ended.stderr);
}

#[test]
fn error_for_substituted_value_points_at_the_variable() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG).unwrap();
    let variables = [("THRUWAY_TEST_PATH", "a b"), ("THRUWAY_TEST_PORT", "0")];
    let ended = Thruway::start_with(directory.path(), &["check", "a.toml"], &variables).end();
    let expected = "\
error: a path cannot contain ` `
 --> a.toml:5:8
  |
5 | path = \"/${THRUWAY_TEST_PATH}\"
  |        ^^^^^^^^^^^^^^^^^^^^^^^
";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

/// Errors once contained the value: on the terminal, in the log, and in the response of the admin listener to
/// a reload.
#[test]
fn error_names_the_variable_and_hides_its_value() {
    let directory = tempfile::tempdir().unwrap();
    let rest = "listeners = [{ address = \"127.0.0.1:0\" }]\n\
                [[routes]]\npath = \"/\"\nupstream = \"a\"\n[upstreams.a]\nservers = [\"127.0.0.1:1\"]\n";
    let variable = [("THRUWAY_TEST_SECRET", "se same:x")];
    let check = |config: &str| {
        fs::write(directory.path().join("a.toml"), config).unwrap();
        let ended = Thruway::start_with(directory.path(), &["check", "a.toml"], &variable).end();
        assert_eq!(ended.code, Some(2), "{config}");
        ended.stderr
    };
    for wrong in [
        "access_log.format = \"${THRUWAY_TEST_SECRET}\"",
        "access_log = { path = \"none/${THRUWAY_TEST_SECRET}\" }",
        "timeouts.idle = \"${THRUWAY_TEST_SECRET}\"",
        "admin.address = \"${THRUWAY_TEST_SECRET}\"",
        "trusted_proxies = [\"${THRUWAY_TEST_SECRET}\"]",
        "policies.p.jwt.secret = \"${THRUWAY_TEST_SECRET}\"",
        "policies.p.jwt.secret = \"${se same}\"",
        "policies.p.jwt.keys_url = \"${THRUWAY_TEST_SECRET}\"",
        "policies.p.jwt.keys_file = \"${THRUWAY_TEST_SECRET}\"",
        "policies.p.api_keys.keys.bob = \"${THRUWAY_TEST_SECRET}\"",
        "policies.p.client_certificate.fingerprints = [\"${THRUWAY_TEST_SECRET}\"]",
        "policies.p.rate_limit = { requests = \"${THRUWAY_TEST_SECRET}\" }",
        "acme = { directory = \"${THRUWAY_TEST_SECRET}\", contacts = [\"${THRUWAY_TEST_SECRET}\"] }",
        "upstreams.b.servers = [\"${THRUWAY_TEST_SECRET}\"]",
        "upstreams.b = { servers = [\"a:1\"], balance = { hash = \"${THRUWAY_TEST_SECRET}\" } }",
        "upstreams.b = { servers = [\"a:1\"], sticky.cookie = \"${THRUWAY_TEST_SECRET}\" }",
        "upstreams.b = { servers = [\"a:1\"], check = { path = \"${THRUWAY_TEST_SECRET}\" } }",
    ] {
        let stderr = check(&format!("{wrong}\n{rest}"));
        assert!(!stderr.contains("same"), "{wrong}: {stderr}");
        assert!(stderr.contains("THRUWAY_TEST_SECRET") || stderr.contains("****"), "{wrong}: {stderr}");
    }
    for (key, wrong) in [("path", "/a//${THRUWAY_TEST_SECRET}"), ("upstream", "${THRUWAY_TEST_SECRET}")] {
        let config = rest.replace(&format!("{key} = "), &format!("{key} = \"{wrong}\" # "));
        assert!(!check(&config).contains("same"), "{wrong}");
    }
    let url = "policies.p.jwt.keys_url = \"http://bob:sesame@a.example/\"";
    let stderr = check(&format!("{url}\n{rest}"));
    assert!(stderr.contains("http://**********@a.example/") && !stderr.contains("sesame"), "{stderr}");
}

#[test]
fn failed_reload_does_not_show_values_of_variables() {
    let directory = tempfile::tempdir().unwrap();
    let config = "admin.address = \"127.0.0.1:0\"\nlisteners = [{ address = \"127.0.0.1:0\" }]\n\
                  routes = [{ path = \"/\", demo = true }]\n";
    fs::write(directory.path().join("a.toml"), config).unwrap();
    let variable = [("THRUWAY_TEST_SECRET", "sesame")];
    let mut thruway = Thruway::start_with(directory.path(), &["serve", "a.toml"], &variable);
    thruway.address();
    let mut admin = Client::connect(&thruway.admin_address());
    let wrong = format!("access_log.format = \"${{THRUWAY_TEST_SECRET}}\"\n{config}");
    fs::write(directory.path().join("a.toml"), wrong).unwrap();
    admin.send("POST /reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let refused = admin.response(false);
    assert_eq!(refused.status(), "422", "{}", refused.text());
    assert!(refused.text().contains("unknown value `${THRUWAY_TEST_SECRET}`"), "{}", refused.text());
    let ended = thruway.terminate();
    assert!(!refused.text().contains("sesame") && !ended.stderr.contains("sesame"), "{}", ended.stderr);
}
