//! Tests of `thruway mcp federate`, of MCP endpoints in config files, and of their tools in `thruway check`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use thruway_testkit::CertificateAuthority;

use crate::admin::get_admin;
use crate::client::{Client, Response};
use crate::process::{RELOADED, Signal, Thruway};

pub(crate) const THRUWAY: &str = env!("CARGO_BIN_EXE_thruway");

/// The demo as a child process.
const DEMO: &str = "command = [\"${THRUWAY}\", \"mcp\", \"serve\", \"--stdio\"]\n";

pub(crate) fn run(args: &[&str]) -> Output {
    Command::new(THRUWAY).arg("mcp").args(args).output().unwrap()
}

pub(crate) fn printed(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Starts the demo over HTTP. Returns it with its address.
fn demo() -> (Thruway, String) {
    let mut demo = Thruway::start_in(Path::new("."), &["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let authority = demo.authority();
    (demo, authority)
}

/// Returns a config with two servers that are child processes, and an endpoint with these keys.
pub(crate) fn config(endpoint: &str) -> String {
    let head = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n";
    let servers = format!("[mcp.servers.one]\n{DEMO}[mcp.servers.two]\n{DEMO}tools.deny = [\"a*\"]\n");
    // Lists wait for the servers even on a slow machine.
    let endpoint = format!("[mcp.endpoints.dev]\nlist_wait = \"1m\"\n{endpoint}");
    format!("{head}{servers}{endpoint}[[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n")
}

/// Starts `thruway serve` with this config. The config can use `${THRUWAY}`.
pub(crate) fn serve(directory: &Path, config: &str) -> Thruway {
    std::fs::write(directory.join("thruway.toml"), config).unwrap();
    Thruway::start_with(directory, &["serve", "thruway.toml"], &[("THRUWAY", THRUWAY)])
}

pub(crate) fn names(tools: &str) -> Vec<&str> {
    let lines = tools.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.split([' ', '(']).next()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn stdio_federation_offers_the_tools_of_urls_and_commands() {
    let (_demo, authority) = demo();
    let url = format!("web=http://{authority}/mcp");
    let near = format!("near={THRUWAY}");
    let federation = ["--", THRUWAY, "mcp", "federate", &url, "--", &near, "mcp", "serve", "--stdio"];
    for era in ["modern", "legacy"] {
        let ask = |words: &[&str]| printed(&[words, &["--era", era], &federation].concat());
        let tools = ask(&["tools"]);
        for tool in ["near__add", "near__echo", "web__add", "web__echo"] {
            assert!(names(&tools).contains(&tool), "{era}: {tools}");
        }
        assert!(ask(&["call", "web__add", "a=1", "b=2.5"]).contains("3.5"), "{era}");
        assert!(ask(&["call", "near__add", "a=2", "b=2.5"]).contains("4.5"), "{era}");
        assert_eq!(ask(&["get", "web__greeting", "name=Ada"]), "user: Greet Ada warmly.\n", "{era}");
        assert_eq!(ask(&["read", "example://greeting/Ada"]), "Hello, Ada!\n", "{era}");
    }
}

#[test]
fn http_federation_serves_plain_names_of_the_preferred_server() {
    let (_demo, authority) = demo();
    let url = format!("web=http://{authority}/mcp");
    let directory = tempfile::tempdir().unwrap();
    let args = ["mcp", "federate", "--listen", "127.0.0.1:0", "--names", "plain"];
    let near = format!("near={THRUWAY}");
    let command = ["--", &near, "mcp", "serve", "--stdio"];
    for (prefer, has_tools) in [(&["--prefer", "near"][..], true), (&[], false)] {
        let args = [&args[..], prefer, &[&url], &command].concat();
        let mut federation = Thruway::start_in(directory.path(), &args);
        let endpoint = format!("{}/mcp", federation.address());
        let tools = printed(&["tools", &endpoint]);
        assert_eq!(names(&tools).contains(&"echo"), has_tools, "{tools}");
        federation.signal(Signal::TERM);
        assert_eq!(federation.end().code, Some(0));
    }
}

#[test]
fn invalid_federation_arguments_are_errors() {
    for (args, expected) in [
        (vec!["federate"], "required"),
        (vec!["federate", "http://127.0.0.1:1/mcp"], "is not `NAME=URL`"),
        (vec!["federate", "a=ftp://127.0.0.1/"], "does not begin with `http://` or `https://`"),
        (vec!["federate", "A_B=http://127.0.0.1:1/"], "invalid server name `A_B`"),
        (vec!["federate", "a=http://127.0.0.1:1/", "--", "a=x"], "two MCP servers have the name `a`"),
        (vec!["federate", "--", "npx"], "`npx` is not `NAME=PROGRAM`"),
        (
            vec!["federate", "a=http://127.0.0.1:1/", "--names", "plain", "--prefer", "b"],
            "`prefer` contains `b`",
        ),
        (vec!["federate", "a=http://127.0.0.1:1/", "--prefer", "a"], "`prefer` requires plain names"),
        (
            vec!["federate", "a=http://127.0.0.1:1/", "-H", "b=A: sesame"],
            "is not the name of a server with a URL",
        ),
        (vec!["federate", "a=http://127.0.0.1:1/", "-H", "A: sesame"], "has no server name"),
        (vec!["federate", "a=http://127.0.0.1:1/", "--allow-remote"], "need `--listen`"),
        (vec!["federate", "a=http://127.0.0.1:1/", "--names", "short"], "possible values"),
    ] {
        let output = run(&args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{args:?}: {stderr}");
        assert!(!stderr.contains("sesame"), "{stderr}");
    }
}

#[test]
fn route_serves_the_tools_of_all_servers_and_reports_their_state() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(directory.path(), &config("servers = [\"one\", \"two\"]\n"));
    let url = format!("{}/dev", thruway.address());
    let admin = thruway.admin_address();
    let tools = printed(&["tools", &url]);
    for tool in ["one__add", "one__echo", "two__echo"] {
        assert!(names(&tools).contains(&tool), "{tools}");
    }
    assert!(!tools.contains("two__add") && !tools.contains("two__ask"), "{tools}");
    assert!(printed(&["call", &url, "one__add", "a=1", "b=2.5"]).contains("3.5"));
    // `two__add` is hidden. The other names are unknown.
    for name in ["two__add", "two__nothing", "add"] {
        let output = run(&["call", &url, name, "a=1", "b=2"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && stderr.contains("(-32602)"), "{name}: {stderr}");
    }
    let status: Value = serde_json::from_str(get_admin(&admin, "/status").text()).unwrap();
    let [one, two] = &status["mcp_endpoints"][0]["servers"].as_array().unwrap()[..] else {
        panic!("{status}")
    };
    assert_eq!((&one["name"], &two["name"]), (&"one".into(), &"two".into()));
    assert_eq!((&one["state"], &two["state"]), (&"connected".into(), &"connected".into()));
    assert!(one["tools"].as_u64().unwrap() >= 5 && one["withheld"].is_null(), "{one}");
    assert_eq!(two["withheld"][0]["name"], "add", "{two}");
    assert!(two["withheld"][0]["reason"].as_str().unwrap().contains("hidden"), "{two}");
    let metrics = get_admin(&admin, "/metrics").text().to_owned();
    for line in [
        "thruway_mcp_server_state{endpoint=\"dev\",server=\"one\",state=\"connected\"} 1",
        "thruway_mcp_server_state{endpoint=\"dev\",server=\"one\",state=\"failed\"} 0",
        "thruway_mcp_server_withheld_items{endpoint=\"dev\",server=\"two\"} 2",
    ] {
        assert!(metrics.lines().any(|metric| metric == line), "{line}\n{metrics}");
    }
    assert_eq!(thruway.terminate().code, Some(0));
}

/// The demo counts the calls of `count` in memory, so a new process begins with 1.
#[test]
fn reload_keeps_child_processes_of_unchanged_endpoints_and_ends_removed_ones() {
    let directory = tempfile::tempdir().unwrap();
    let first = config("servers = [\"one\"]\n");
    let mut thruway = serve(directory.path(), &first);
    let url = format!("{}/dev", thruway.address());
    let count = |url: &str| printed(&["call", url, "one__count"]);
    assert_eq!(count(&url), "counted to 1\n");
    let second = format!("{first}[[routes]]\npath = \"/other\"\nrespond.body = \"other\"\n");
    thruway.reload(directory.path(), &second, RELOADED);
    assert_eq!(count(&url), "counted to 2\n");
    let third = config("servers = [\"one\", \"two\"]\n");
    thruway.reload(directory.path(), &third, RELOADED);
    assert_eq!(count(&url), "counted to 1\n");
    let fourth = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
                  [[routes]]\npath = \"/\"\nrespond.status = 404\n";
    thruway.reload(directory.path(), fourth, RELOADED);
    assert_ne!(run(&["tools", &url]).status.code(), Some(0));
    assert_eq!(thruway.terminate().code, Some(0));
}

/// Sends a message to the endpoint.
fn post(client: &mut Client, fields: &str, content: &str) -> Response {
    client.send(&format!(
        "POST /dev HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{fields}\r\n{content}",
        content.len()
    ));
    client.response(false)
}

/// Begins a session of the legacy era with these client capabilities. Returns the field line with its id.
fn begin_session(client: &mut Client, capabilities: &str) -> String {
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{capabilities},"clientInfo":{{"name":"a","version":"1"}}}}}}"#
    );
    let initialized = post(client, "", &message);
    let session = initialized.head.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    format!("{session}\r\n")
}

/// Regression test: the workers ended before the endpoints, which killed the child processes of sessions.
#[test]
fn shutdown_closes_all_child_processes() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let note = |event: &str| format!("echo {event} >> {}", log.display());
    let script = format!("{}; ${{THRUWAY}} mcp serve --stdio; {}", note("started"), note("closed"));
    let command = format!("command = [\"sh\", \"-c\", \"{script}\"]\n");
    let config = config("servers = [\"one\"]\n").replace(DEMO, &command);
    let mut thruway = serve(directory.path(), &config);
    let mut client = Client::connect(&thruway.address());
    let session = begin_session(&mut client, r#"{"elicitation":{}}"#);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one__count"}}"#;
    assert_eq!(post(&mut client, &session, call).status(), "200");
    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let log = std::fs::read_to_string(log).unwrap();
    let count = |event: &str| log.lines().filter(|line| *line == event).count();
    assert!(count("started") >= 2, "a shared process, and a process of the session");
    assert_eq!(count("started"), count("closed"), "{log}");
}

/// A call of a modern child process was counted twice, because the endpoint first tried to relay it.
#[test]
fn call_of_a_child_process_is_counted_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(directory.path(), &config("servers = [\"one\"]\n"));
    let (address, admin) = (thruway.address(), thruway.admin_address());
    printed(&["tools", &format!("{address}/dev")]);
    let content = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__add","arguments":{"a":1,"b":2},"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let mut client = Client::connect(&address);
    client.send(&format!(
        "POST /dev HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: one__add\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    assert_eq!(client.response(false).status(), "200");
    let status: Value = serde_json::from_str(get_admin(&admin, "/status").text()).unwrap();
    assert_eq!(status["mcp_endpoints"][0]["servers"][0]["calls"]["total"], 1, "{status}");
    assert_eq!(thruway.terminate().code, Some(0));
}

/// The endpoint once ended while a connection still contained a part of a request.
#[test]
fn request_that_arrives_during_the_shutdown_gets_its_response() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(directory.path(), &config("servers = [\"one\"]\n"));
    let address = thruway.address();
    printed(&["tools", &format!("{address}/dev")]);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__count","_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let mut client = Client::connect(&address);
    client.send(&format!(
        "POST /dev HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: one__count\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        call.len()
    ));
    assert!(client.head().starts_with("http/1.1 100 "));
    thruway.signal(Signal::TERM);
    thruway.wait_for_log("draining");
    client.send(call);
    assert_eq!(client.response(false).status(), "200");
    assert_eq!(thruway.end().code, Some(0));
}

/// A session of the legacy era survives a reload that keeps its endpoint.
#[test]
fn reload_keeps_sessions_of_unchanged_endpoints() {
    let directory = tempfile::tempdir().unwrap();
    let first = config("servers = [\"one\"]\n");
    let mut thruway = serve(directory.path(), &first);
    let mut client = Client::connect(&thruway.address());
    let session = begin_session(&mut client, "{}");
    let mut post = |fields: &str, content: &str| post(&mut client, fields, content);
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let second = format!("{first}[[routes]]\npath = \"/other\"\nrespond.body = \"other\"\n");
    thruway.reload(directory.path(), &second, RELOADED);
    assert_eq!(post(&session, ping).status(), "200");
    thruway.reload(directory.path(), &second.replace("1m", "2m"), RELOADED);
    assert_eq!(post(&session, ping).status(), "404");
    assert_eq!(thruway.terminate().code, Some(0));
}

/// The subscription of a modern client once stayed open without any notification.
#[test]
fn reload_ends_subscriptions_of_changed_endpoints() {
    let directory = tempfile::tempdir().unwrap();
    let first = config("servers = [\"one\"]\n");
    let mut thruway = serve(directory.path(), &first);
    let mut client = Client::connect(&thruway.address());
    let content = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{
        "notifications":{"toolsListChanged":true},"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    client.send(&format!(
        "POST /dev HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: subscriptions/listen\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    let head = client.head();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    let mut next = || String::from_utf8(client.chunk()).unwrap();
    assert!(next().contains("notifications/subscriptions/acknowledged"));
    thruway.reload(directory.path(), &first.replace("1m", "2m"), RELOADED);
    let last = std::iter::repeat_with(&mut next).find(|event| event.contains("\"result\"")).unwrap();
    assert!(last.contains("\"id\":1"), "{last}");
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn server_behind_an_upstream_uses_its_first_reachable_server() {
    let (_demo, authority) = demo();
    // No server listens on port 1.
    let config = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         [upstreams.web]\nservers = [\"127.0.0.1:1\", \"{authority}\"]\n\
         [mcp.servers.web]\nupstream = \"web\"\nrequired = true\n\
         [mcp.endpoints.dev]\nservers = [\"web\"]\nnames = \"plain\"\n\
         [policies.key]\napi_keys = {{ bearer = true, keys = {{ a = \"sha256:{DIGEST}\" }} }}\n\
         [[routes]]\npath = \"/dev\"\npolicies = [\"key\"]\nmcp = \"dev\"\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(directory.path(), &config);
    let url = format!("{}/dev", thruway.address());
    let key = ["--bearer", "sesame"];
    assert!(printed(&[&["call", &url, "add", "a=1", "b=2.5"], &key[..]].concat()).contains("3.5"));
    assert_ne!(run(&["tools", &url, "--bearer", "other"]).status.code(), Some(0));
    // A header with credentials replaces the login.
    let header = ["-H", "Authorization: Bearer sesame", "--header", "X-Tenant: a"];
    assert!(printed(&[&["call", &url, "add", "a=1", "b=2.5"], &header[..]].concat()).contains("3.5"));
    let command = run(&["tools", "-H", "X-Tenant: a", "--", "true"]);
    assert!(String::from_utf8_lossy(&command.stderr).contains("requires a URL"));
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn server_behind_an_upstream_with_tls_needs_a_certificate_of_its_roots() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("www", &["www.example"]);
    let (chain, key) = (files.chain.display(), files.key.display());
    let far = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         tls.certificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n\
         [[routes]]\nhost = \"www.example\"\npath_exact = \"/tools\"\ndemo = \"mcp\"\n"
    );
    let (far_directory, near_directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut far = Thruway::serve(far_directory.path(), &far);
    let address = far.address().strip_prefix("https://").unwrap().to_owned();
    for (roots, is_trusted) in [(authority.root(), true), (CertificateAuthority::new().root(), false)] {
        let near = format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n[upstreams.far]\nservers = [\"{address}\"]\n\
             tls = {{ roots = [\"{}\"], server_name = \"www.example\" }}\n\
             [mcp.servers.far]\nupstream = \"far\"\npath = \"/tools\"\n\
             [mcp.endpoints.dev]\nservers = [\"far\"]\nnames = \"plain\"\n\
             [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n",
            roots.display()
        );
        let mut near = serve(near_directory.path(), &near);
        let called = run(&["call", &format!("{}/dev", near.address()), "add", "a=1", "b=2.5"]);
        assert_eq!(called.status.success(), is_trusted, "{}", String::from_utf8_lossy(&called.stderr));
        assert_eq!(near.terminate().code, Some(0));
    }
}

/// The SHA-256 of `sesame`.
const DIGEST: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";

#[test]
fn check_prints_the_tools_of_endpoints_and_warns_about_missing_servers() {
    let directory = tempfile::tempdir().unwrap();
    let missing = "[mcp.servers.gone]\ncommand = [\"/nowhere/to/be/found\"]\n";
    let text = format!("{}{missing}", config("servers = [\"one\", \"gone\"]\n"));
    std::fs::write(directory.path().join("thruway.toml"), text).unwrap();
    let check = |args: &[&str]| {
        let args = [&["check", "thruway.toml"], args].concat();
        let ended = Thruway::start_with(directory.path(), &args, &[("THRUWAY", THRUWAY)]).end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        (ended.stdout, ended.stderr)
    };
    let (stdout, stderr) = check(&[]);
    assert!(stdout.contains("\n  one__add (one)\n"), "{stdout}");
    assert!(stderr.contains("the MCP server `gone` is not connected"), "{stderr}");
    assert!(stderr.contains("thruway.toml:") && !stderr.contains("WARN"), "{stderr}");
    let (stdout, stderr) = check(&["--offline"]);
    assert!(!stdout.contains("one__add") && !stderr.contains("gone"), "{stdout}{stderr}");
}

#[test]
fn check_warns_once_about_each_plain_name_of_several_servers() {
    let directory = tempfile::tempdir().unwrap();
    let text = config("servers = [\"one\", \"two\"]\nnames = \"plain\"\n");
    std::fs::write(directory.path().join("thruway.toml"), text).unwrap();
    let ended =
        Thruway::start_with(directory.path(), &["check", "thruway.toml"], &[("THRUWAY", THRUWAY)]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\n  add (one)\n"), "{}", ended.stdout);
    let clash =
        "clients of the MCP endpoint `dev` do not get `echo`: several servers have this name: one, two";
    assert_eq!(ended.stderr.matches(clash).count(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains("`add`"), "{}", ended.stderr);
}
