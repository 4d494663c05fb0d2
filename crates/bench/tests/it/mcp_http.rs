//! Tests of MCP messages over Streamable HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use thruway_bench::{
    ConnectionOptions, FailureKind, Limit, Load, McpRequests, ProbeError, Record, Revision, SessionUse,
    probe_http,
};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{HandlerError, McpServer, Structured};
use thruway_server::{ListenAddr, Router, RunningServer, Server};

use crate::mcp_scene::{FakeServer, Seen, answer, assert_all, call_of_echo, endpoint, http, json_answer};
use crate::mcp_scene::{load, operation, result};

fn serve() -> (RunningServer, SocketAddr) {
    let echo = |arguments: serde_json::Value| Structured(json!({"echo": arguments["message"]}));
    let schema = json!({"type": "object", "required": ["message"], "properties": {"message": {
        "type": "string", "x-mcp-header": "Text"
    }}});
    let mirrored = Tool::new("mirrored").with_input_schema(serde_json::from_value(schema).unwrap());
    let server = McpServer::new("test", "1")
        .tool(Tool::new("echo"), echo)
        .tool(mirrored, echo)
        .tool(Tool::new("fails"), || Err::<String, _>(HandlerError::from("no")));
    let router = Router::new().any("/mcp", server.endpoint());
    let running = Server::new(router).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = running.addresses()[0].clone() else { panic!("no TCP address") };
    (running, address)
}

fn run(load: &Load) -> Record {
    load.run(&mut |_| {}).unwrap().record
}

fn assert_answered(record: &Record, requests: u64) {
    let failures: Vec<_> = record.failures().collect();
    assert_eq!((record.answered, record.failed()), (requests, 0), "{failures:?}");
}

#[test]
fn every_revision_and_session_mode_gets_responses() {
    let (_server, address) = serve();
    for (revision, sessions) in [
        (Revision::R20260728, SessionUse::None),
        (Revision::R20251125, SessionUse::PerConnection),
        (Revision::R20250618, SessionUse::PerCall),
        (Revision::R20250326, SessionUse::PerConnection),
    ] {
        let record = run(&http(revision, sessions, address));
        assert_answered(&record, 40);
        assert_eq!(record.statuses(), [(200, 40)]);
        assert_eq!(record.connections_opened, 2);
    }
    let mut pipelined = http(Revision::R20260728, SessionUse::None, address);
    pipelined.connection_options.pipeline = 8;
    assert_answered(&run(&pipelined), 40);
}

#[test]
fn operations_are_chosen_by_weight() {
    let fake = FakeServer::listen(|seen| json_answer(&result(&seen.message["id"], &json!({}))));
    let mix = [operation("tools/list", json!({}), 3), operation("ping", json!({}), 1)];
    let requests = McpRequests::new(Revision::R20250618, SessionUse::None, &mix, Some(&endpoint())).unwrap();
    let load = Load { limit: Limit::Requests(400), ..load(requests, vec![fake.address.into()]) };
    assert_answered(&run(&load), 400);
    let pings = fake.seen().iter().filter(|seen| seen.message["method"] == "ping").count();
    assert!((60..140).contains(&pings), "{pings}");
}

#[test]
fn requests_have_the_headers_and_metadata_of_their_revision() {
    let fake = FakeServer::listen(|seen| json_answer(&result(&seen.message["id"], &json!({}))));
    assert_answered(&run(&http(Revision::R20260728, SessionUse::None, fake.address)), 40);
    let mut ids: Vec<_> = fake.seen().iter().map(|seen| seen.message["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=40).collect::<Vec<_>>(), "each id once");
    for seen in fake.seen() {
        assert!(seen.head.starts_with("POST /mcp HTTP/1.1\r\n"), "{}", seen.head);
        for line in ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo"] {
            assert!(seen.has_field(line), "{line}: {}", seen.head);
        }
        let meta = &seen.message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        let number = seen.message["id"].as_u64().unwrap() - 1;
        assert_eq!(seen.message["params"]["arguments"]["message"], format!("message {number}"));
    }
}

/// Answers like a server with sessions, unless `differs` returns another response.
fn with_sessions(differs: impl Fn(&Seen) -> Option<Vec<u8>> + Send + Sync + 'static) -> FakeServer {
    FakeServer::listen(move |seen| {
        if let Some(other) = differs(seen) {
            return other;
        }
        match seen.message["method"].as_str() {
            Some("initialize") => {
                let content = result(&seen.message["id"], &json!({"protocolVersion": "2025-06-18"}));
                let content = content.to_string();
                let length = content.len();
                let head = "HTTP/1.1 200 OK\r\nMcp-Session-Id: a-b\r\nContent-Type: application/json\r\n";
                format!("{head}Content-Length: {length}\r\n\r\n{content}").into()
            }
            Some("notifications/initialized") => answer("202 Accepted", "text/plain", ""),
            Some(_) if seen.has_field("Mcp-Session-Id: a-b") => {
                json_answer(&result(&seen.message["id"], &json!({})))
            }
            None if seen.has_field("Mcp-Session-Id: a-b") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            _ => answer("404 Not Found", "text/plain", ""),
        }
    })
}

fn methods(fake: &FakeServer) -> Vec<String> {
    let seen = fake.seen();
    seen.iter().map(|seen| seen.message["method"].as_str().unwrap_or("DELETE").to_owned()).collect()
}

#[test]
fn sessions_last_per_connection_or_per_call() {
    let one = |sessions, address| Load {
        connections: 1,
        limit: Limit::Requests(3),
        ..http(Revision::R20250618, sessions, address)
    };
    let begin = ["initialize", "notifications/initialized"];
    let fake = with_sessions(|_| None);
    assert_answered(&run(&one(SessionUse::PerConnection, fake.address)), 3);
    assert_eq!(methods(&fake), [&begin[..], &["tools/call"; 3]].concat());
    let fake = with_sessions(|_| None);
    let record = run(&one(SessionUse::PerCall, fake.address));
    assert_answered(&record, 3);
    assert_eq!(record.statuses(), [(200, 3)]);
    assert_eq!(methods(&fake), [&begin[..], &["tools/call", "DELETE"]].concat().repeat(3));
}

#[test]
fn client_starts_a_new_session_after_404() {
    let fake = with_sessions(|seen| {
        (seen.message["id"] == 5).then(|| answer("404 Not Found", "text/plain", "no such session"))
    });
    let load = Load { connections: 1, ..http(Revision::R20250618, SessionUse::PerConnection, fake.address) };
    let record = run(&load);
    assert_eq!((record.answered, record.failed_as(FailureKind::WrongStatus)), (39, 1));
    assert_eq!(methods(&fake).iter().filter(|method| *method == "initialize").count(), 2);
}

#[test]
fn session_is_deleted_after_a_failed_call() {
    let fake = with_sessions(|seen| {
        let failed = json!({"content": [], "isError": true});
        (seen.message["method"] == "tools/call").then(|| json_answer(&result(&seen.message["id"], &failed)))
    });
    assert_all(&run(&http(Revision::R20250618, SessionUse::PerCall, fake.address)), FailureKind::ToolError);
    assert_eq!(methods(&fake).iter().filter(|method| *method == "DELETE").count(), 40);
}

#[test]
fn connection_closed_within_a_per_call_session_is_a_failure() {
    let fake = with_sessions(|seen| {
        let content = result(&seen.message["id"], &json!({"protocolVersion": "2025-06-18"})).to_string();
        let length = content.len();
        (seen.message["method"] == "initialize").then(|| {
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{content}")
                .into()
        })
    });
    assert_all(&run(&http(Revision::R20250618, SessionUse::PerCall, fake.address)), FailureKind::Closed);
}

#[test]
fn responses_in_event_streams_are_accepted_and_counted() {
    let fake = FakeServer::listen(|seen| {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        let content = result(&seen.message["id"], &json!({}));
        let events = format!(": hello\n\ndata: {notification}\n\nid: 1\ndata: {content}\n\n");
        answer("200 OK", "text/event-stream", &events)
    });
    let record = run(&http(Revision::R20260728, SessionUse::None, fake.address));
    assert_answered(&record, 40);
    assert_eq!(record.event_streams, 40);
}

#[test]
fn bad_responses_are_counted_by_failure_kind() {
    type React = fn(&Seen) -> Vec<u8>;
    let cases: [(React, FailureKind); 8] = [
        (|_| json_answer(&result(&json!(777), &json!({}))), FailureKind::WrongId),
        (
            |seen| json_answer(&result(&json!(seen.message["id"].to_string()), &json!({}))),
            FailureKind::WrongId,
        ),
        (
            |seen| {
                let error = json!({"code": -32000, "message": "no"});
                json_answer(&json!({"jsonrpc": "2.0", "id": seen.message["id"], "error": error}))
            },
            FailureKind::RpcError,
        ),
        (|seen| json_answer(&result(&seen.message["id"], &json!({"isError": true}))), FailureKind::ToolError),
        (|_| answer("500 No", "application/json", "{}"), FailureKind::WrongStatus),
        (|_| answer("202 Accepted", "application/json", ""), FailureKind::NotAResponse),
        (|_| answer("200 OK", "text/html", "<html>"), FailureKind::NotAResponse),
        (|_| Vec::new(), FailureKind::Closed),
    ];
    for (react, kind) in cases {
        let fake = FakeServer::listen(react);
        assert_all(&run(&http(Revision::R20260728, SessionUse::None, fake.address)), kind);
    }
}

#[test]
fn error_code_is_the_example_of_an_rpc_error() {
    let (_server, address) = serve();
    let unknown = operation("tools/call", json!({"name": "none", "arguments": {}}), 1);
    let requests =
        McpRequests::new(Revision::R20260728, SessionUse::None, &[unknown], Some(&endpoint())).unwrap();
    let record = run(&load(requests, vec![address.into()]));
    let failures: Vec<_> = record.failures().collect();
    assert_eq!(failures, [(FailureKind::RpcError, 40, "-32602".to_owned())]);
}

#[test]
fn endless_event_stream_times_out() {
    // The response event arrives, but the stream does not end, so the connection cannot be reused.
    let fake = FakeServer::listen(|seen| {
        let event = format!("data: {}\n\n", result(&seen.message["id"], &json!({})));
        let length = event.len();
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{event}\r\n").into()
    });
    let mut load = http(Revision::R20260728, SessionUse::None, fake.address);
    load.connection_options =
        ConnectionOptions { timeout: Duration::from_millis(50), ..load.connection_options };
    load.limit = Limit::Requests(4);
    assert_all(&run(&load), FailureKind::TimedOut);
}

#[test]
fn endless_body_does_not_delay_the_timeout() {
    let fake = FakeServer::listen(|_| {
        let filler = ": nothing\n\n".repeat(400_000);
        format!("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{filler}").into()
    });
    let mut load = http(Revision::R20260728, SessionUse::None, fake.address);
    load.connection_options =
        ConnectionOptions { timeout: Duration::from_millis(200), ..load.connection_options };
    load.limit = Limit::Requests(2);
    assert_all(&run(&load), FailureKind::TimedOut);
}

#[test]
fn probe_finds_the_revision_and_the_tools() {
    let (_server, address) = serve();
    let within = Duration::from_secs(20);
    let probe = |revisions: &[Revision]| probe_http(&endpoint(), &address.into(), None, revisions, within);
    let modern = probe(&[Revision::LATEST, Revision::LATEST_LEGACY]).unwrap();
    assert_eq!(modern.revision, Revision::LATEST);
    let mirrored = modern.tools.iter().find(|tool| tool.name == "mirrored").unwrap();
    assert_eq!(mirrored.required(), ["message"]);
    let fields = mirrored.mirrored(&json!({"message": "é"}));
    assert_eq!(fields, [("Mcp-Param-Text".to_owned(), "é".to_owned())]);
    let mut call = call_of_echo();
    call.params = json!({"name": "mirrored", "arguments": {"message": "é"}});
    call.mirrored = fields;
    let requests = McpRequests::new(modern.revision, SessionUse::None, &[call], Some(&endpoint())).unwrap();
    assert_answered(&run(&load(requests, vec![address.into()])), 40);

    assert_eq!(probe(&[Revision::R20250618]).unwrap().revision, Revision::R20250618);
    let legacy = with_sessions(|seen| {
        (seen.message["method"] == "server/discover").then(|| answer("400 Bad Request", "text/plain", ""))
    });
    let revisions = [Revision::LATEST, Revision::LATEST_LEGACY];
    let facts = probe_http(&endpoint(), &legacy.address.into(), None, &revisions, within).unwrap();
    assert_eq!((facts.revision, facts.tools.len()), (Revision::R20250618, 0));
    assert_eq!(methods(&legacy).last().unwrap(), "DELETE");
    let ids: Vec<_> = legacy.seen().iter().filter_map(|seen| seen.message["id"].as_u64()).collect();
    assert!(ids.len() == 3 && ids.windows(2).all(|two| two[0] > two[1]), "no id twice: {ids:?}");
}

/// Regression test: the refusal of `server/discover` names a session. The probe sent it with `initialize`,
/// and took the resulting 404 for a refusal of the legacy era too.
#[test]
fn probe_ignores_a_session_id_on_a_discover_error() {
    let fake = with_sessions(|seen| {
        let refusal =
            json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no"}});
        let (content, session) = (refusal.to_string(), "Mcp-Session-Id: gone");
        let length = content.len();
        if seen.message["method"] == "server/discover" {
            let head = format!("HTTP/1.1 400 Bad Request\r\n{session}\r\nContent-Type: application/json\r\n");
            return Some(format!("{head}Content-Length: {length}\r\n\r\n{content}").into());
        }
        seen.has_field(session).then(|| answer("404 Not Found", "application/json", &content))
    });
    let revisions = [Revision::LATEST, Revision::LATEST_LEGACY];
    let facts = probe_http(&endpoint(), &fake.address.into(), None, &revisions, Duration::from_secs(20));
    assert_eq!(facts.unwrap().revision, Revision::R20250618);
}

#[test]
fn probe_reports_how_the_server_misbehaves() {
    let within = Duration::from_millis(500);
    let probe = |fake: &FakeServer| {
        probe_http(&endpoint(), &fake.address.into(), None, &[Revision::LATEST], within).unwrap_err()
    };
    let gone = probe(&FakeServer::listen(|_| answer("404 Not Found", "text/plain", "")));
    assert!(matches!(gone, ProbeError::Status(404)), "{gone}");
    let page = probe(&FakeServer::listen(|_| answer("200 OK", "text/html", "<html>")));
    assert!(matches!(page, ProbeError::NoResponse), "{page}");
    let closed = probe(&FakeServer::listen(|_| Vec::new()));
    assert!(matches!(closed, ProbeError::Closed), "{closed}");
    let silent = probe(&FakeServer::listen(|_| b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()));
    assert!(matches!(silent, ProbeError::TimedOut), "{silent}");
    let rubbish = probe(&FakeServer::listen(|_| b"220 mail.example ready\r\n\r\n".to_vec()));
    assert!(matches!(rubbish, ProbeError::Malformed(_)), "{rubbish}");
}
