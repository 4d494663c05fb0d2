//! Tests of `thruway mcp new`, `install`, `inspect` and `dev`, with real files and real child processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::PROGRAM;
use crate::process::Thruway;

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

/// The commands of the guide, except for `dev`, which runs until a signal.
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

/// Starts `thruway mcp dev` in `directory`. Returns it with the URL of its endpoint.
fn dev(directory: &Path, args: &[&str]) -> (Thruway, String) {
    let args = [&["mcp", "dev", "--listen", "127.0.0.1:0"], args].concat();
    let target = directory.join("target");
    let mut dev = Thruway::start_with(directory, &args, &[("CARGO_TARGET_DIR", target.to_str().unwrap())]);
    let url = format!("{}/mcp", dev.address());
    (dev, url)
}

fn write_script(directory: &Path, command: &str) {
    // The watcher ignores hidden files.
    let script = format!("echo $$ >> .pids\nexec {PROGRAM} {command}\n");
    fs::write(directory.join("server.sh"), script).unwrap();
}

#[test]
fn dev_restarts_the_server_when_its_source_changes() {
    let directory = tempfile::tempdir().unwrap();
    write_script(directory.path(), "mcp serve --stdio");
    let (mut dev, url) = dev(directory.path(), &["--", "sh", "server.sh"]);
    dev.wait_for_log("the server responds");
    assert!(printed(directory.path(), &["tools", &url]).contains("\nadd "));
    // A call in progress gets an error.
    let mut call = Command::new(PROGRAM);
    call.args(["mcp", "call", &url, "slow", "steps=600", "--trace"]).stderr(Stdio::piped());
    let mut call = call.spawn().unwrap();
    let mut lines = BufReader::new(call.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("notifications/progress") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the call ended early");
    }
    write_script(directory.path(), &format!("mcp federate -- demo={PROGRAM} mcp serve --stdio"));
    dev.wait_for_log("server.sh` has changed");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(!call.wait().unwrap().success() && rest.contains("the connection ended"), "{rest}");
    dev.wait_for_log("the server has restarted");
    let tools = printed(directory.path(), &["tools", &url]);
    assert!(tools.contains("demo__add"), "{tools}");
    // The end of the command ends all processes of the server.
    assert_eq!(dev.terminate().code, Some(0));
    let pids = fs::read_to_string(directory.path().join(".pids")).unwrap();
    assert!(pids.lines().count() >= 2, "{pids}");
    for pid in pids.lines() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "process {pid} still runs: {stat}");
    }
}

#[test]
fn dev_reports_a_server_that_does_not_start_until_it_is_repaired() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("server.sh"), "echo broken >&2; exit 3\n").unwrap();
    let (mut dev, url) = dev(directory.path(), &["--", "sh", "server.sh"]);
    dev.wait_for_log("server: broken");
    dev.wait_for_log("the server does not start: ");
    let output = thruway(directory.path(), &["ping", &url]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("the server does not start: "), "{text}");
    write_script(directory.path(), "mcp serve --stdio");
    dev.wait_for_log("the server responds");
    assert_eq!(printed(directory.path(), &["ping", &url]), "");
    assert_eq!(dev.terminate().code, Some(0));
}

#[test]
fn dev_restarts_a_server_with_http() {
    let directory = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    write_script(directory.path(), &format!("mcp serve --listen {address}"));
    let url = format!("http://{address}/mcp");
    let (mut dev, endpoint) = dev(directory.path(), &["--url", &url, "--", "sh", "server.sh"]);
    dev.wait_for_log("the server responds");
    assert!(printed(directory.path(), &["tools", &endpoint]).contains("\nadd "));
    write_script(
        directory.path(),
        &format!("mcp federate --listen {address} -- demo={PROGRAM} mcp serve --stdio"),
    );
    dev.wait_for_log("the server has restarted");
    assert!(printed(directory.path(), &["tools", &endpoint]).contains("demo__add"));
    assert_eq!(dev.terminate().code, Some(0));
    assert!(TcpListener::bind(address).is_ok(), "the server has ended");
}

/// Regression test: the second signal left the processes of the server.
#[test]
fn second_signal_kills_the_processes_of_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let script = format!(
        "trap '' TERM\necho $$ > .pid\n{PROGRAM} mcp serve --listen {address}\n\
         while :; do sleep 0.02; done\n"
    );
    fs::write(directory.path().join("server.sh"), script).unwrap();
    let url = format!("http://{address}/mcp");
    let (mut dev, _) = dev(directory.path(), &["--url", &url, "--", "sh", "server.sh"]);
    dev.wait_for_log("the server responds");
    dev.signal(Signal::TERM);
    dev.wait_for_log("draining");
    assert_eq!(dev.terminate().code, Some(143));
    let pid = fs::read_to_string(directory.path().join(".pid")).unwrap();
    // The kernel ends a killed process at some time after the signal.
    let stat = format!("/proc/{}/stat", pid.trim());
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
}

#[test]
fn failed_build_keeps_the_previous_version() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("src")).unwrap();
    let manifest = "[package]\nname = \"a\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
    let source = |args: &str| {
        let text = format!(
            "use std::os::unix::process::CommandExt;\nfn main() {{\n    let error = \
             std::process::Command::new({PROGRAM:?}).args({args}).exec();\n    panic!(\"{{error}}\");\n}}\n"
        );
        fs::write(directory.path().join("src/main.rs"), text).unwrap();
    };
    source("[\"mcp\", \"serve\", \"--stdio\"]");
    let (mut dev, url) = dev(directory.path(), &["--", env!("CARGO"), "run", "--quiet", "--offline"]);
    dev.wait_for_log("the server responds");
    source("[");
    dev.wait_for_log("build: error");
    dev.wait_for_log("the previous version continues");
    assert!(printed(directory.path(), &["tools", &url]).contains("\nadd "));
    source("[\"mcp\", \"serve\", \"--stdio\"]");
    dev.wait_for_log("the server has restarted");
    assert!(printed(directory.path(), &["tools", &url]).contains("\nadd "));
    assert_eq!(dev.terminate().code, Some(0));
}

#[test]
fn dev_checks_its_arguments() {
    let directory = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["dev", "--listen", "0.0.0.0:0"][..], "it is not a loopback address"),
        (&["dev", "--listen", "localhost"], "invalid"),
        (&["dev", "--url", "https://a/mcp"], "does not begin with `http://`"),
        (&["dev", "--watch", "missing"], "cannot watch `missing`: it is not a directory"),
    ] {
        let text = refused(directory.path(), args);
        assert!(text.contains(expected), "{args:?}: {text}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = refused(directory.path(), &["dev", "--listen", &address, "--", "true"]);
    assert!(text.contains(&address), "{text}");
}
