//! Tests of MCP endpoints that three replicas serve.

mod clients;
mod durable;
mod notifications;
mod outage;
mod processes;
mod scene;
mod view;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use serde_json::{Value, json};

use thruway_client::{Client, ClientConfig};
use thruway_net::Clock;
use thruway_net::tls::{TlsConnector, TlsConnectorConfig};
use thruway_testkit::{CertificateAuthority, JwtIssuer};

use crate::client::end;
use scene::{BOUND, Fleet, KEY, Message};

fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

/// Returns the text of the result of a tool.
fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"))
}

#[test]
fn session_works_on_each_replica() {
    let fleet = Fleet::start();
    let session = fleet.begin_session(0);
    for replica in [1, 2, 0] {
        let (status, answer) =
            fleet.request(replica, &Message::legacy(&session, "tools/call", &call("web__hello")));
        assert_eq!((&*status, text(&answer)), ("200", "hello"));
    }
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let (status, ..) = fleet.response(2, &Message::legacy_body(&session, &notification));
    assert_eq!(status, "202");
    // DELETE ends the session for all replicas.
    assert_eq!(fleet.response(1, &Message::empty("DELETE", &session, "")).0, "204");
    for replica in [0, 1, 2] {
        let (status, answer) = fleet.request(replica, &Message::legacy(&session, "ping", &json!({})));
        assert_eq!(status, "404", "{answer}");
    }
    fleet.end();
}

#[test]
fn question_of_a_session_is_answered_through_another_replica() {
    let fleet = Fleet::start();
    let session = fleet.begin_session(0);
    let mut stream = fleet.stream(1, &Message::legacy(&session, "tools/call", &call("old__ask")));
    let question = stream.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"name": "Ada"}}});
    let (status, ..) = fleet.response(2, &Message::legacy_body(&session, &answer));
    assert_eq!(status, "202");
    assert_eq!(text(&stream.next()), "hello Ada");
    fleet.end();
}

#[test]
fn client_reconnects_to_a_stream_through_another_replica() {
    let fleet = Fleet::start();
    let session = fleet.begin_session(0);
    let mut stream = fleet.stream(1, &Message::legacy(&session, "tools/call", &call("old__ask")));
    let question = stream.next();
    let last_id = stream.last_id.clone();
    drop(stream);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(fleet.response(0, &Message::legacy_body(&session, &answer)).0, "202");
    let lines = format!("Last-Event-ID: {last_id}\r\n");
    let mut resumed = fleet.stream(2, &Message::empty("GET", &session, &lines));
    assert_eq!(text(&resumed.next()), "hello Ada");
    fleet.end();
}

#[test]
fn standalone_stream_ends_with_its_session() {
    let fleet = Fleet::start();
    let session = fleet.begin_session(0);
    let stream = fleet.stream(1, &Message::empty("GET", &session, ""));
    assert_eq!(fleet.response(2, &Message::empty("DELETE", &session, "")).0, "204");
    stream.end();
    fleet.end();
}

/// Begins a call of a modern client that asks a question. Returns the `requestState`.
fn pending(fleet: &Fleet, replica: usize) -> Value {
    let (_, asked) = fleet.request(replica, &Message::modern("tools/call", "old__ask", &call("old__ask")));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let mut params = call("old__ask");
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    params
}

#[test]
fn pending_call_continues_through_another_replica() {
    let fleet = Fleet::start();
    let params = pending(&fleet, 0);
    let (_, answer) = fleet.request(1, &Message::modern("tools/call", "old__ask", &params));
    assert_eq!(text(&answer), "hello Ada");
    fleet.end();
}

#[test]
fn state_without_an_owner_opens_on_each_replica() {
    let mut fleet = Fleet::start();
    let (_, asked) = fleet.request(0, &Message::modern("tools/call", "web__ask", &call("web__ask")));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut params = call("web__ask");
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    fleet.end_replica(0);
    let (_, answer) = fleet.request(1, &Message::modern("tools/call", "web__ask", &params));
    assert_eq!(text(&answer), "hello Ada");
    fleet.end();
}

#[test]
fn task_of_a_child_process_is_reachable_from_each_replica() {
    let fleet = Fleet::start();
    let (_, task) = fleet.request(0, &Message::modern("tools/call", "jobs__work", &call("jobs__work")));
    let id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let ask = |replica, method: &str| {
        fleet.request(replica, &Message::modern(method, &id, &json!({"taskId": id}))).1
    };
    for replica in [1, 2, 0] {
        let task = ask(replica, "tasks/get");
        assert_eq!(task["result"]["status"], "working", "{task}");
        assert_eq!(task["result"]["taskId"], id, "{task}");
    }
    let cancelled = ask(1, "tasks/cancel");
    assert!(cancelled["error"].is_null(), "{cancelled}");
    assert_eq!(ask(2, "tasks/get")["result"]["status"], "cancelled");
    fleet.end();
}

#[test]
fn client_of_a_dead_replica_gets_a_clear_answer() {
    let mut fleet = Fleet::start();
    let session = fleet.begin_session(0);
    let state = pending(&fleet, 0);
    let (_, task) = fleet.request(0, &Message::modern("tools/call", "jobs__work", &call("jobs__work")));
    let id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    fleet.end_replica(0);
    let begin = Clock::system().now_exact();
    let (status, answer) = fleet.request(1, &Message::legacy(&session, "ping", &json!({})));
    assert_eq!(status, "404", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("initialize"), "{answer}");
    assert_eq!(fleet.response(2, &Message::empty("GET", &session, "")).0, "404");
    let (_, answer) = fleet.request(2, &Message::modern("tasks/get", &id, &json!({"taskId": id})));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let (_, answer) = fleet.request(1, &Message::modern("tools/call", "old__ask", &state));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let elapsed = Clock::system().now_exact().saturating_sub(begin);
    assert!(elapsed < 4 * BOUND, "{elapsed:?}");
    // A new session works.
    let session = fleet.begin_session(1);
    assert_eq!(fleet.request(2, &Message::legacy(&session, "ping", &json!({}))).0, "200");
    fleet.end();
}

#[test]
fn replica_that_starts_later_is_known_at_once() {
    let fleet = Fleet::start();
    let late = fleet.replica("d", KEY);
    let address = crate::client::address_of(&late);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let head = post(&address.to_string(), "/dev", "", &body);
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id: ")).unwrap();
    let session = &line["mcp-session-id: ".len()..];
    let (status, answer) = fleet.request(1, &Message::legacy(session, "ping", &json!({})));
    assert_eq!(status, "200", "{answer}");
    end(late);
    fleet.end();
}

#[test]
fn forged_ids_and_ids_of_other_fleets_are_refused() {
    let fleet = Fleet::start();
    let session = fleet.begin_session(0);
    let mut forged = session.clone().into_bytes();
    forged[0] = if forged[0] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    assert_eq!(fleet.request(1, &Message::legacy(&forged, "ping", &json!({}))).0, "404");
    // The replica of the other fleet uses the same store. Its clients cannot reach sessions of this fleet.
    let other = fleet.replica("other", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=");
    let address = crate::client::address_of(&other).to_string();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let lines = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let response = post(&address, "/dev", &lines, &body);
    assert!(response.starts_with("HTTP/1.1 404"), "{response}");
    let replicas = other.handle().status()["fleet"]["replicas"].as_array().unwrap().len();
    assert_eq!(replicas, 1);
    end(other);
    fleet.end();
}

#[test]
fn peer_listener_accepts_only_requests_of_the_fleet() {
    let fleet = Fleet::start();
    let session = fleet.begin_session(2);
    // The replica has started last, so it knows all replicas.
    let status = fleet.daemon(2).handle().status();
    let replicas = status["fleet"]["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 3, "{status}");
    let own = replicas.iter().find(|replica| replica["name"] == "c").unwrap();
    assert_eq!((&own["state"], &own["sessions"]), (&json!("live"), &json!(1)));
    let address = own["address"].as_str().unwrap();
    let lines = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (path, caller, expected) in
        [("/mcp", "", "403"), ("/mcp", "Thruway-Caller: AAAA\r\n", "403"), ("/dev", "", "404")]
    {
        let response = post(address, path, &format!("{lines}{caller}"), &body);
        assert!(response.starts_with(&format!("HTTP/1.1 {expected}")), "{path}: {response}");
    }
    // A client cannot choose its identity.
    let lines = format!("{lines}Thruway-Caller: AAAA\r\n");
    let public = crate::client::address_of(fleet.daemon(1)).to_string();
    let response = post(&public, "/dev", &lines, &body);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(!response.to_ascii_lowercase().contains("thruway-replica"), "{response}");
    fleet.end();
}

#[test]
fn session_belongs_to_its_caller_on_each_replica() {
    let keys = JwtIssuer::new("key");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, keys.keys()).unwrap();
    let policy = format!("[policies.tokens.jwt]\nkeys_file = \"{}\"\n", file.display());
    let fleet = Fleet::start_with(&policy, "policies = [\"tokens\"]\n");
    let token = |name: &str| {
        let claims = json!({"iss": "https://login.example", "sub": name, "exp": 4_000_000_000_u64});
        format!("Authorization: Bearer {}\r\n", keys.token(&claims))
    };
    let session = fleet.begin_session_as(0, &token("ada"));
    let ping = |replica, lines: &str| {
        fleet.response(replica, &Message::legacy(&session, "ping", &json!({})).with_lines(lines)).0
    };
    assert_eq!(ping(1, &token("ada")), "200");
    assert_eq!(ping(1, &token("bob")), "404");
    assert_eq!(ping(1, ""), "401");
    fleet.end();
}

/// The owner used to refuse such requests with 431, and the client got 404.
#[test]
fn request_with_as_many_headers_as_the_config_allows_reaches_its_owner() {
    let fleet = Fleet::start_with("[limits]\nheaders = 300\nheader_bytes = 300000\n", "");
    let session = fleet.begin_session(0);
    let lines: Vec<_> = (0..290).map(|number| format!("X-{number}: {}\r\n", "x".repeat(1000))).collect();
    let request = Message::legacy(&session, "tools/list", &json!({})).with_lines(&lines.concat());
    let (status, body) = fleet.request(1, &request);
    assert_eq!(status, "200", "{body}");
    fleet.end();
}

#[test]
fn replicas_with_mutual_tls_forward_requests() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("replica", &["replica.example"]);
    let tls = format!(
        "peer_tls = {{ certificate = {{ chain = \"{}\", key = \"{}\" }}, roots = [\"{}\"], \
         server_name = \"replica.example\" }}\n",
        files.chain.display(),
        files.key.display(),
        authority.root().display()
    );
    let fleet = Fleet::start_with(&tls, "");
    let session = fleet.begin_session(0);
    assert_eq!(fleet.request(1, &Message::legacy(&session, "ping", &json!({}))).0, "200");
    // A client without a certificate cannot send a request.
    let status = fleet.daemon(0).handle().status();
    let address = status["fleet"]["replicas"][0]["address"].as_str().unwrap();
    let connector = TlsConnector::load(TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() });
    let tls = Some(Arc::new(connector.unwrap()));
    let client = Client::with_config(ClientConfig { tls, ..ClientConfig::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = format!("https://{address}/mcp");
    let outcome = runtime.block_on(async { client.get(&url).send().await });
    assert!(outcome.is_err(), "{:?}", outcome.map(|response| response.status()));
    fleet.end();
}

#[test]
fn sessions_of_a_draining_replica_work_until_its_calls_have_ended() {
    let mut fleet = Fleet::start();
    let session = fleet.begin_session(0);
    let mut stream = fleet.stream(0, &Message::legacy(&session, "tools/call", &call("old__ask")));
    let question = stream.next();
    fleet.daemon(0).handle().drain();
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(fleet.response(1, &Message::legacy_body(&session, &answer)).0, "202");
    assert_eq!(text(&stream.next()), "hello Ada");
    drop(stream);
    fleet.end_replica(0);
    assert_eq!(fleet.request(1, &Message::legacy(&session, "ping", &json!({}))).0, "404");
    fleet.end();
}

#[test]
fn draining_replica_ends_its_idle_sessions_and_the_streams_that_it_forwards() {
    let mut fleet = Fleet::start();
    let (idle, busy) = (fleet.begin_session(0), fleet.begin_session(0));
    let of_idle = fleet.stream(1, &Message::empty("GET", &idle, ""));
    let mut of_busy = fleet.stream(1, &Message::legacy(&busy, "tools/call", &call("old__ask")));
    let question = of_busy.next();
    let elsewhere = fleet.begin_session(2);
    let through_drained = fleet.stream(0, &Message::empty("GET", &elsewhere, ""));
    fleet.daemon(0).handle().drain();
    of_idle.end();
    through_drained.end();
    let (status, answer) = fleet.request(1, &Message::legacy(&idle, "ping", &json!({})));
    assert!(status == "404" && answer.to_string().contains("shuts down"), "{status}: {answer}");
    assert_eq!(fleet.request(1, &Message::legacy(&elsewhere, "ping", &json!({}))).0, "200");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(fleet.response(1, &Message::legacy_body(&busy, &answer)).0, "202");
    assert_eq!(text(&of_busy.next()), "hello Ada");
    drop(of_busy);
    fleet.end_replica(0);
    fleet.end();
}

/// Returns the whole response to a POST.
fn post(address: &str, path: &str, lines: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::client::TIMEOUT)).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}
