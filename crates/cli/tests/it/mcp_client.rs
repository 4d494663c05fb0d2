//! Tests of `thruway mcp tools`, `call` and the other client commands against the demo, over HTTP and as
//! a child process, in both eras.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::process::{Signal, Thruway};

const ERAS: [&str; 4] = ["auto", "modern", "legacy", "2025-03-26"];

fn thruway(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thruway")).args(["mcp"]).args(args).output().unwrap()
}

/// Runs a command that must succeed, and returns its output.
fn printed(args: &[&str]) -> String {
    let output = thruway(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command. Returns its exit code and its error output.
fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = thruway(args);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn child<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--", env!("CARGO_BIN_EXE_thruway"), "mcp", "serve", "--stdio"]].concat()
}

fn server() -> (Thruway, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Thruway::start_in(directory.path(), &["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let url = format!("{}/mcp", server.address());
    (server, url)
}

#[test]
fn client_commands_work_over_http_in_every_era() {
    let (_server, url) = server();
    for era in ERAS {
        let ask =
            |command: &str, words: &[&str]| printed(&[&[command, &url], words, &["--era", era]].concat());
        assert!(ask("discover", &[]).contains("thruway-demo"), "{era}");
        assert_eq!(ask("ping", &[]), "");
        let tools = ask("tools", &[]);
        assert!(
            tools.lines().any(|line| line.split_whitespace().eq(["add", "a", "b", "Adds", "two", "numbers"])),
            "{tools}"
        );
        assert!(ask("call", &["add", "a=1", "b=2.5"]).contains("3.5"));
        assert!(ask("call", &["echo", "message=5"]).contains("\"5\""), "the schema type is string");
        assert!(ask("resources", &[]).contains("example://greeting/{name}"));
        assert_eq!(ask("read", &["example://greeting/Ada"]), "Hello, Ada!\n");
        assert!(ask("prompts", &[]).starts_with("greeting  [name]"));
        assert_eq!(ask("get", &["greeting", "name=Ada"]), "user: Greet Ada warmly.\n");
        let result = ask("call", &["add", "--json", r#"{"a":1,"b":1}"#, "--output", "json"]);
        let result: Value = serde_json::from_str(&result).unwrap();
        assert!(era == "2025-03-26" || result["structuredContent"] == json!({"sum": 2.0}), "{result}");
    }
}

#[test]
fn client_commands_work_with_a_child_process() {
    for era in ERAS {
        assert!(printed(&child(&["tools", "--era", era])).contains("echo "), "{era}");
        assert!(printed(&child(&["call", "add", "a=1", "b=2", "--era", era])).contains('3'));
    }
}

#[test]
fn exit_codes_separate_server_refusals_from_other_errors() {
    let (code, stderr) = refused(&child(&["call", "unknown"]));
    assert!(code == Some(1) && stderr.contains("the server refused"), "{code:?} {stderr}");
    let (code, stderr) = refused(&child(&["call", "add", "a=one", "b=2"]));
    assert!(code == Some(2) && stderr.contains("the tool expects number"), "{code:?} {stderr}");
    for (args, expected) in [
        (vec!["tools"], "no server is given"),
        (vec!["tools", "nonsense"], "no server is given"),
        (vec!["tools", "127.0.0.1:8080/mcp"], "such as `http://127.0.0.1:8080/mcp`"),
        (vec!["tools", "http://127.0.0.1:1/mcp"], "error: "),
        (vec!["tools", "http://127.0.0.1:1/mcp", "more"], "expected no arguments"),
        (vec!["call", "http://127.0.0.1:1/mcp"], "a tool"),
        (vec!["ping", "--", "/nowhere/to/be/found"], "cannot be started"),
        (vec!["ping", "--", "false"], "the connection ended"),
        (vec!["ping", "--", "false"], "`--trace` prints"),
        (vec!["ping", "http://127.0.0.1:1/", "--era", "2020-01-01"], "2025-11-25"),
    ] {
        let (code, stderr) = refused(&args);
        assert!(code == Some(2) && stderr.contains(expected), "{args:?}: {code:?} {stderr}");
    }
}

#[test]
fn help_shows_positional_arguments() {
    for (command, words) in [
        ("call", "URL TOOL [KEY=VALUE]..."),
        ("call", "TOOL [KEY=VALUE]... -- COMMAND [ARG]..."),
        ("read", "URL URI"),
        ("tasks", "URL [ID]..."),
        ("listen", "[URI]... -- COMMAND [ARG]..."),
    ] {
        let help = printed(&[command, "--help"]);
        assert!(help.contains(&format!("thruway mcp {command} [OPTIONS] {words}\n")), "{help}");
    }
}

#[test]
fn error_for_wrong_endpoint_path_suggests_mcp_path() {
    let (_server, url) = server();
    let (code, stderr) = refused(&["ping", url.trim_end_matches("/mcp")]);
    assert!(code == Some(2) && stderr.contains("`/mcp`"), "{code:?} {stderr}");
}

/// Returns a script that acts as a server of the modern era. It answers the requests in order with `results`.
fn scripted(results: &[Value]) -> String {
    let answers = results.iter().enumerate().map(|(n, result)| {
        let answer = json!({"jsonrpc": "2.0", "id": n + 1, "result": result});
        format!("read -r line; echo '{answer}'\n")
    });
    answers.collect::<String>() + "cat >/dev/null"
}

#[test]
fn complete_command_prints_argument_values() {
    for era in ERAS {
        assert_eq!(printed(&child(&["complete", "greeting", "name=a", "--era", era])), "Ada\nAlan\n");
    }
    let (code, stderr) = refused(&child(&["complete", "greeting"]));
    assert!(code == Some(2) && stderr.contains("a prompt or a resource template"), "{stderr}");
}

#[test]
fn trace_option_shows_messages_with_timing() {
    let output = thruway(&child(&["call", "echo", "message=hello", "--trace", "--era", "legacy"]));
    let stderr = String::from_utf8(output.stderr).unwrap();
    for part in [
        " ms --> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"",
        " ms <-- {",
        "notifications/initialized",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(String::from_utf8(output.stdout).unwrap().contains("hello"), "stdout contains the result");
}

#[test]
fn elicitation_without_a_terminal_fails() {
    for era in ERAS {
        let (code, stderr) = refused(&child(&["call", "ask", "--era", era]));
        let is_modern = matches!(era, "auto" | "modern");
        let reason = if is_modern { "this command has no terminal" } else { "lacks a required capability" };
        let is_reported = stderr.contains(reason) || (stderr.is_empty() && !is_modern);
        assert!(code == Some(1) && is_reported, "{era}: {code:?} {stderr}");
    }
}

/// The program once requested progress only at a terminal. Progress extends the time of a call, so calls in
/// scripts timed out.
#[test]
fn progress_is_requested_without_a_terminal() {
    let good = json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "content": []}});
    let script =
        format!(r#"read -r line; case "$line" in *progressToken*) echo '{good}' ;; esac; cat >/dev/null"#);
    let args = ["call", "slow", "--era", "modern", "--timeout", "5s", "--", "sh", "-c", &script];
    assert_eq!(printed(&args), "");
}

/// If the server did not support templates, the command once showed no resources either.
#[test]
fn resources_are_shown_without_template_support() {
    let listed = json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete",
        "resources": [{"uri": "a://b", "name": "b"}]}});
    let unknown = json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "no such method"}});
    let script = format!("read -r line; echo '{listed}'; read -r line; echo '{unknown}'; cat >/dev/null");
    assert_eq!(printed(&["resources", "--era", "modern", "--", "sh", "-c", &script]), "a://b  b\n");
}

/// Such a timeout once caused a panic.
#[test]
fn timeouts_are_less_than_a_year() {
    printed(&child(&["ping", "--timeout", "31535999s"]));
    let (code, stderr) = refused(&child(&["ping", "--timeout", "18446744073709551615s"]));
    assert!(code == Some(2) && stderr.contains("the time must be less than a year"), "{code:?} {stderr}");
}

#[test]
fn error_names_an_unknown_host() {
    let (code, stderr) = refused(&["ping", "http://name.invalid/mcp"]);
    // Without a DNS server, the system cannot tell that the name does not exist, so the reason varies.
    assert!(code == Some(2) && stderr.contains("the host `name.invalid` "), "{code:?} {stderr}");
}

#[test]
fn ctrl_c_ends_an_unacknowledged_subscription() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let args = ["mcp", "listen", "--era", "modern", "--timeout", "1h", &url, "test://n"];
    let listening = Thruway::start_in(directory.path(), &args);
    // The client has sent its subscription request. The server does not answer it.
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.read(&mut [0; 64]).unwrap() > 0);
    listening.signal(Signal::INT);
    let ended = listening.end();
    assert_eq!((ended.code, &*ended.stdout), (None, ""), "SIGINT ended the process: {}", ended.stderr);
}

/// Under `nohup` and in background jobs of shells, SIGINT is ignored. The child inherited this, so the test
/// above always failed there.
#[test]
fn ctrl_c_ends_a_subscription_if_the_test_run_ignores_sigint() {
    let test = "mcp_client::ctrl_c_ends_an_unacknowledged_subscription";
    let output = Command::new("sh")
        .args(["-c", "trap '' INT; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn binary_content_is_saved_to_files() {
    let content = json!([
        {"type": "image", "mimeType": "image/png", "data": "AAEC"},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAECAw=="},
        {"type": "resource", "resource": {"uri": "a://b", "mimeType": "x/y", "blob": "AA=="}},
    ]);
    let script = scripted(&[json!({"resultType": "complete", "content": content.clone()})]);
    let directory = tempfile::tempdir().unwrap();
    let save = directory.path().to_str().unwrap();
    let command = ["--", "sh", "-c", &script];
    let stdout = printed(&[&["call", "picture", "--era", "modern", "--save", save], &command[..]].concat());
    for name in ["image-1.png", "audio-1.wav", "resource-1.y"] {
        assert!(stdout.contains(&format!(": {save}/{name}]")), "{stdout}");
    }
    assert_eq!(std::fs::read(directory.path().join("audio-1.wav")).unwrap(), [0, 1, 2, 3]);
    let named = printed(&[&["call", "picture", "--era", "modern"], &command[..]].concat());
    assert!(named.contains("[image, image/png, 3 bytes]"), "{named}");
    // With JSON output, the program prints the data unchanged and also saves the files.
    let command = [&["call", "picture", "--era", "modern", "--save", save, "--output", "json"], &command[..]];
    let output = thruway(&command.concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success() && stderr.contains(&format!("saved {save}/image-2.png")), "{stderr}");
    assert_eq!(result["content"], content);
}

/// The program once reported this error but exited with code 0.
#[test]
fn failed_save_is_an_error() {
    let content = json!([{"type": "image", "mimeType": "image/png", "data": "AAEC"}]);
    let script = scripted(&[json!({"resultType": "complete", "content": content})]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for output in ["text", "json"] {
        let (code, stderr) = refused(&[
            "call", "picture", "--era", "modern", "--save", path, "--output", output, "--", "sh", "-c",
            &script,
        ]);
        assert!(code == Some(1) && stderr.contains("cannot save the"), "{output}: {code:?} {stderr}");
    }
}

/// The program once stopped at the first error and did not show the other tasks.
#[test]
fn error_for_one_task_does_not_hide_other_tasks() {
    let task = json!({"resultType": "complete", "taskId": "t2", "status": "working", "ttlMs": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"});
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such task"}}"#;
    let found = json!({"jsonrpc": "2.0", "id": 2, "result": task});
    let script = format!("read -r line; echo '{error}'; read -r line; echo '{found}'; cat >/dev/null");
    let output = thruway(&["tasks", "t1", "t2", "--era", "modern", "--", "sh", "-c", &script]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && stderr.contains("`t1`: the server refused the request: no such task"),
        "{stderr}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t2  working\n");
}

#[test]
fn wait_options_control_waiting_for_tasks() {
    let task = |status: &str| {
        json!({"resultType": "complete", "taskId": "t1", "status": status, "statusMessage": "reading",
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 10})
    };
    let created = {
        let mut created = task("working");
        created["resultType"] = "task".into();
        created
    };
    let completed = {
        let mut completed = task("completed");
        completed["result"] = json!({"content": [{"type": "text", "text": "the report"}]});
        completed
    };
    let run = |args: &[&str], results: &[Value]| {
        let script = scripted(results);
        let command = ["--era", "modern", "--", "sh", "-c", &script];
        printed(&[args, &command].concat())
    };
    let results = [created.clone(), task("working"), completed.clone()];
    assert_eq!(run(&["call", "report"], &results), "the report\n");
    assert_eq!(run(&["call", "report", "--no-wait"], &[created]), "t1  working  reading\n");
    assert_eq!(run(&["tasks", "t1"], &[task("working")]), "t1  working  reading\n");
    assert_eq!(run(&["tasks", "t1", "--wait"], &[completed]), "the report\n");
    let cancelled = [json!({"resultType": "complete"}), task("cancelled")];
    assert_eq!(run(&["tasks", "t1", "--cancel"], &cancelled), "t1  cancelled  reading\n");
}

#[test]
fn tasks_of_2025_11_25_are_created_and_listed() {
    let offers = json!({"tools": {}, "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}});
    let begun = json!({"protocolVersion": "2025-11-25", "capabilities": offers,
        "serverInfo": {"name": "old", "version": "1"}});
    let task = json!({"taskId": "t1", "status": "working", "createdAt": "then", "lastUpdatedAt": "now", "ttl": null});
    let tool = json!({"name": "report", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}});
    let run = |args: &[&str], results: &[Value]| {
        let script = scripted(&[std::slice::from_ref(&begun), results].concat());
        // The script skips the notification that completes the initialization; it is not a request.
        let script = script.replacen('\n', "\nread -r line\n", 1);
        let command = ["--era", "2025-11-25", "--", "sh", "-c", &script];
        printed(&[args, &command].concat())
    };
    let made = [json!({"tools": [tool]}), json!({"task": task})];
    assert_eq!(run(&["call", "report", "--no-wait"], &made), "t1  working\n");
    assert_eq!(run(&["tasks"], &[json!({"tasks": [task, task]})]), "t1  working\nt1  working\n");
    let (code, stderr) = refused(&child(&["tasks", "--era", "modern"]));
    assert!(code == Some(2) && stderr.contains("the id of a task"), "{stderr}");
}
