//! Tests of `thruway mcp new`, `install` and `inspect`, with real files and real child processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::PROGRAM;

const GUIDE: &str = include_str!("../../../../docs/guide/mcp-development.md");

fn thruway(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("mcp").args(args).current_dir(directory).env("HOME", directory).env_remove("XDG_CONFIG_HOME");
    command.output().unwrap()
}

/// Runs a command that must succeed, and returns its output.
fn printed(directory: &Path, args: &[&str]) -> String {
    let output = thruway(directory, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(directory: &Path, args: &[&str]) -> String {
    let output = thruway(directory, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The commands of the guide.
#[test]
fn examples_of_the_guide_work() {
    let directory = tempfile::tempdir().unwrap();
    let path = Path::new(PROGRAM).parent().unwrap().display();
    let blocks = GUIDE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines: Vec<_> =
        blocks.flat_map(str::lines).filter(|line| !line.starts_with("thruway mcp dev")).collect();
    assert_eq!(lines.len(), 7, "{lines:?}");
    for line in lines {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(directory.path()).env("HOME", directory.path());
        command.env("PATH", format!("{path}:/usr/bin:/bin")).env_remove("XDG_CONFIG_HOME");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let read = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    assert!(read("notes/src/server.rs").contains("add_note"));
    assert!(read(".vscode/mcp.json").contains("https://docs.example/mcp"));
    assert!(!read(".config/Claude/claude_desktop_config.json").contains("notes"), "the entry is removed");
    assert!(!directory.path().join(".cursor").exists(), "a dry run writes nothing");
}

#[test]
fn inspect_prints_text_or_one_json_document() {
    let directory = tempfile::tempdir().unwrap();
    let server = ["--", PROGRAM, "mcp", "serve", "--stdio"];
    let text = printed(directory.path(), &[&["inspect"], &server[..]].concat());
    assert!(
        text.starts_with("Server        thruway-demo ") && text.contains("\n  add  [read-only]\n"),
        "{text}"
    );
    let document = printed(directory.path(), &[&["inspect", "--output", "json"], &server[..]].concat());
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(
        (&document["inspectionFormat"], &document["server"]["name"]),
        (&1.into(), &"thruway-demo".into())
    );
    assert!(refused(directory.path(), &["inspect", "http://127.0.0.1:1/mcp"]).contains("error: "));
    assert!(refused(directory.path(), &["inspect", "--", "false"]).contains("the connection ended"));
}

/// The server declares a list, but does not send it.
#[test]
fn inspect_reports_a_missing_list_with_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}'; cat >/dev/null"#;
    let args = ["inspect", "--era", "modern", "--timeout", "200ms", "--", "sh", "-c", script];
    let output = thruway(directory.path(), &args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("did not send its list `tools`"), "{text}");
}

#[test]
fn new_explains_the_source_of_the_crates() {
    let directory = tempfile::tempdir().unwrap();
    let text = printed(directory.path(), &["new", "notes"]);
    assert!(text.contains("Thruway crates from crates.io") && text.contains("`--path`"), "{text}");
    let text = refused(directory.path(), &["new", "notes"]);
    assert!(text.contains("`./notes` already exists") && text.contains("--in DIR"), "{text}");
    assert!(
        refused(directory.path(), &["new", "a/b"]).contains("a package name starts with a lowercase letter")
    );
    assert!(refused(directory.path(), &["new", "fn"]).contains("Rust or Cargo reserves this name"));
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = printed(directory.path(), &["new", "other", "--path", checkout]);
    assert!(!text.contains("crates.io"), "{text}");
}

#[test]
fn install_checks_its_arguments() {
    let directory = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["install", "--client", "cursor", "a"][..], "required arguments"),
        (&["install", "a", "http://a"], "--client"),
        (&["install", "--client", "emacs", "a", "http://a"], "claude-desktop, cursor, vscode"),
        (&["install", "--client", "cursor", "a", "ftp://a"], "does not begin with `http://`"),
        (&["install", "--client", "cursor", "a", "http://a", "--", "b"], "cannot be used with"),
        (&["install", "--client", "cursor", "--remove", "a", "http://a"], "cannot be used with"),
        (&["install", "--client", "cursor", "--env", "=1", "a", "--", "b"], "expected `NAME=VALUE`"),
        (&["install", "--client", "cursor", "-H", "a b: c", "a", "http://a"], "expected `Name: value`"),
        (&["install", "--client", "cursor", "a b", "--", "c"], "is not a server name"),
        (
            &["install", "--client", "claude-desktop", "--scope", "project", "a", "--", "b"],
            "no config for projects",
        ),
    ] {
        let text = refused(directory.path(), args);
        assert!(text.contains(expected), "{args:?}: {text}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let args = ["install", "--client", "cursor", "--env", "A=b=c", "a", "--", "./run", "x"];
    let text = printed(directory.path(), &args);
    assert!(text.starts_with("wrote the entry `a` in `"), "{text}");
    let written = fs::read_to_string(directory.path().join(".cursor/mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let entry = &written["mcpServers"]["a"];
    let program = entry["command"].as_str().unwrap();
    assert!(Path::new(program).is_absolute() && program.ends_with("/run"), "{program}");
    assert_eq!((&entry["args"][0], &entry["env"]["A"]), (&"x".into(), &"b=c".into()));
    assert!(printed(directory.path(), &args).contains("already contains this entry"));
}
