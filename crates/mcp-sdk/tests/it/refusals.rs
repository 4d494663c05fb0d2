//! Refused messages over HTTP.

use serde_json::{Value, json};
use thruway_mcp_sdk::McpServerOptions;

use crate::fixtures::{server, server_with};
use crate::http::{Message, Session, Site, with_meta};

/// A modern request with a different body.
fn with_content(content: impl Into<Vec<u8>>) -> Message {
    Message { content: content.into(), ..Message::modern("server/discover", json!({})) }
}

#[tokio::test(start_paused = true)]
async fn invalid_json_rpc_message_gets_400() {
    let site = Site::new(&server());
    let depth = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}1{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    for (content, code) in [
        (&b""[..], -32700),
        (b"{", -32700),
        (b"nonsense", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700),
        (depth.as_bytes(), -32600),
        (b"[]", -32600),
        (b"5", -32600),
        (b"{}", -32600),
        (br#"{"id":1,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
    ] {
        let refused = site.refused(&with_content(content)).await;
        let text = String::from_utf8_lossy(content);
        assert_eq!(refused, (400, code), "{}", &text[..text.len().min(100)]);
    }
}

#[tokio::test(start_paused = true)]
async fn error_contains_request_id_if_readable() {
    let site = Site::new(&server());
    let response = site.send(&with_content(r#"{"jsonrpc":"1.0","id":"a","method":"x"}"#)).await;
    assert_eq!(response.message()["id"], "a");
    let response = site.send(&with_content("{")).await;
    assert!(response.message().get("id").is_none());
}

#[tokio::test(start_paused = true)]
async fn modern_endpoint_rejects_batches_and_responses() {
    let site = Site::new(&server());
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": with_meta(json!({}), &json!({}))});
    assert_eq!(site.refused(&with_content(json!([request]).to_string())).await, (400, -32600));
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(site.refused(&with_content(response.to_string())).await, (400, -32600));
}

#[tokio::test(start_paused = true)]
async fn missing_and_invalid_meta_members_are_rejected() {
    let site = Site::new(&server());
    let meta = with_meta(json!({}), &json!({}))["_meta"].clone();
    for member in ["protocolVersion", "clientCapabilities"] {
        let mut meta = meta.clone();
        meta.as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{member}"));
        assert_eq!(site.refused(&discover(&json!({"_meta": meta}))).await, (400, -32602), "{member}");
    }
    for params in [json!({}), json!({"_meta": null}), json!({"_meta": []}), json!({"_meta": {}})] {
        assert_eq!(site.refused(&discover(&params)).await, (400, -32602), "{params}");
    }
    for (member, value) in [
        ("io.modelcontextprotocol/protocolVersion", json!(5)),
        ("io.modelcontextprotocol/clientCapabilities", json!([])),
        ("io.modelcontextprotocol/clientCapabilities", json!(null)),
        ("progressToken", json!(1.5)),
        ("progressToken", json!({})),
    ] {
        let mut meta = meta.clone();
        meta[member] = value;
        assert_eq!(site.refused(&discover(&json!({"_meta": meta}))).await, (400, -32602), "{meta}");
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_meta_member_is_rejected() {
    let site = Site::new(&server());
    let meta = with_meta(json!({}), &json!({}))["_meta"].to_string();
    let twice = meta.replacen('{', r#"{"io.modelcontextprotocol/protocolVersion":"2025-06-18","#, 1);
    let content =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{twice}}}}}"#);
    assert_eq!(site.refused(&with_content(content)).await, (400, -32602));
}

fn discover(params: &Value) -> Message {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params});
    with_content(message.to_string())
}

#[tokio::test(start_paused = true)]
async fn unsupported_revision_error_lists_supported_revisions() {
    let site = Site::new(&server());
    for revision in ["2027-01-01", "2025-11-25", "", "x"] {
        let mut params = with_meta(json!({}), &json!({}));
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = revision.into();
        let message = discover(&params).with_field("MCP-Protocol-Version", revision);
        let response = site.send(&message).await;
        assert_eq!((response.status, response.error_code()), (400, -32022), "{revision}");
        let data = response.message()["error"]["data"].clone();
        assert_eq!((&data["requested"], &data["supported"][0]), (&json!(revision), &json!("2026-07-28")));
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_and_legacy_methods_get_404() {
    let site = Site::new(&server());
    for method in [
        "nothing",
        "",
        "ping",
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/list",
        "roots/list",
    ] {
        let refused = site.refused(&Message::modern(method, json!({}))).await;
        assert_eq!(refused, (404, -32601), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn unsupported_http_methods_get_405() {
    let site = Site::new(&server());
    for method in ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"] {
        let message = Message::without_content(method).with_field("MCP-Protocol-Version", "2026-07-28");
        let response = site.send(&message).await;
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.field("allow"), Some("POST, GET, DELETE"));
    }
}

#[tokio::test(start_paused = true)]
async fn server_checks_content_type_and_accept_headers() {
    let site = Site::new(&server());
    let message = Message::modern("server/discover", json!({}));
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        let refused = site.send(&message.clone().with_field("Content-Type", content_type)).await;
        assert_eq!(refused.status, 415, "{content_type}");
    }
    assert_eq!(site.send(&message.clone().without_field("Content-Type")).await.status, 415);
    for accepted in ["text/html", "application/jsonx", "image/*"] {
        let refused = site.send(&message.clone().with_field("Accept", accepted)).await;
        assert_eq!(refused.status, 406, "{accepted}");
    }
    for (name, value) in [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Type", "Application/JSON"),
        ("Accept", "*/*"),
        ("Accept", "text/event-stream;q=0.5 , application/json"),
    ] {
        assert_eq!(site.send(&message.clone().with_field(name, value)).await.status, 200, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_host_and_origin_get_403() {
    let site = Site::new(&server());
    let message = Message::modern("server/discover", json!({}));
    for (name, value, status) in [
        ("Host", "evil.example", 403),
        ("Host", "localhost.evil.example:80", 403),
        ("Host", "[::2]:80", 403),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost@evil.example", 403),
        ("Host", "[::1]", 200),
        ("Host", "[::1]:8080", 200),
        ("Host", "127.0.0.1:1", 200),
        ("Origin", "http://localhost:6274", 200),
        ("Origin", "https://[::1]:6274", 200),
    ] {
        let response = site.send(&message.clone().with_field(name, value)).await;
        assert_eq!(response.status, status, "{name}: {value}");
        assert!(response.message().get("id").is_none() || status == 200);
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_host_gets_403_before_body_arrives() {
    let site = Site::new(&server());
    let mut message = Message::modern("server/discover", json!({})).with_field("Host", "evil.example");
    message.content.clear();
    let message = message.with_field("Transfer-Encoding", "chunked");
    assert_eq!(site.send(&message).await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn message_can_arrive_in_pieces_and_chunks() {
    let site = Site::new(&server());
    let message = Message::modern("server/discover", json!({}));
    let bytes = message.to_bytes();
    for pieces in [1, 7, bytes.len() - 1] {
        let mut exchange = site.open_with(&[]);
        for piece in bytes.chunks(pieces) {
            exchange.client().send(piece);
        }
        assert_eq!(exchange.response().await.status, 200);
    }
    let chunks: Vec<_> = message.content.chunks(10).map(<[u8]>::to_vec).collect();
    let mut chunked = message.with_field("Transfer-Encoding", "chunked");
    chunked.content.clear();
    let mut exchange = site.open(&chunked);
    for chunk in chunks.iter().map(Vec::as_slice).chain([&b""[..]]) {
        let length = format!("{:x}\r\n", chunk.len());
        exchange.client().send([length.as_bytes(), chunk, b"\r\n"].concat());
    }
    assert_eq!(exchange.response().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn notifications_get_202_without_body() {
    let site = Site::new(&server());
    let message = json!({"jsonrpc": "2.0", "method": "notifications/whatever"});
    let response = site.send(&with_content(message.to_string())).await;
    assert_eq!((response.status, response.text()), (202, ""));
}

#[tokio::test(start_paused = true)]
async fn body_over_default_limit_gets_413() {
    let site = Site::new(&server());
    let content = vec![b' '; (4 << 20) + 1];
    let response = site.send(&with_content(content)).await;
    assert_eq!(response.status, 413);
}

#[tokio::test(start_paused = true)]
async fn modern_requests_ignore_session_and_event_id_headers() {
    let site = Site::new(&server());
    let message = Message::modern("server/discover", json!({}));
    let response =
        site.send(&message.with_field("Mcp-Session-Id", "abc").with_field("Last-Event-ID", "1-1")).await;
    assert_eq!((response.status, response.field("mcp-session-id")), (200, None));
}

/// Regression test: the limit was 4 MiB for all servers, and its error was plain text.
#[tokio::test(start_paused = true)]
async fn message_over_configured_limit_gets_413() {
    let options = McpServerOptions { message_bytes_max: 1000, ..McpServerOptions::default() };
    let server = server_with(options);
    let (site, in_axum) = (Site::new(&server), crate::tower::site(&server.endpoint()));
    let echo = |length| json!({"name": "echo", "arguments": {"message": "x".repeat(length)}});
    for site in [&site, &in_axum] {
        // The second body is larger than the data that arrives with the head.
        for length in [1000, 200_000] {
            let refused = site.send(&Message::modern("tools/call", echo(length))).await;
            assert_eq!((refused.status, refused.error_code()), (413, -32600), "{length}");
            assert!(refused.text().contains("larger than 1000 bytes"), "{}", refused.text());
        }
        assert_eq!(site.send(&Message::modern("tools/call", echo(100))).await.status, 200);
    }
}

/// Regression test: a client that accepts only event streams got JSON.
#[tokio::test(start_paused = true)]
async fn response_format_follows_accept_header() {
    let preferring = McpServerOptions { prefers_event_streams: true, ..McpServerOptions::default() };
    let (site, preferring) = (Site::new(&server()), Site::new(&server_with(preferring)));
    let both = "text/event-stream, application/json";
    for (site, accept, is_stream) in [
        (&site, both, false),
        (&site, "*/*", false),
        (&site, "text/event-stream", true),
        (&site, "text/event-stream, application/json;q=0", true),
        (&preferring, both, true),
        (&preferring, "application/json", false),
        (&preferring, "application/json, text/event-stream; q=0.0", false),
    ] {
        let begin = Session::initialize("2025-11-25", &json!({}));
        let initialized = site.send(&begin.clone().with_field("Accept", accept)).await;
        let id = initialized.field("mcp-session-id").map(str::to_owned);
        let session = Session { id: Some(id.unwrap()), revision: "2025-11-25".to_owned() };
        let call = crate::fixtures::tool("progress");
        for message in [
            Message::modern("server/discover", json!({})),
            Message::modern("tools/call", call.clone()),
            session.request(1, "tools/list", &json!({})),
            session.request(1, "tools/call", &call),
            begin,
        ] {
            let response = site.send(&message.with_field("Accept", accept)).await;
            let answers = if is_stream { response.messages() } else { vec![response.message()] };
            assert_eq!((response.status, answers.len()), (200, 1), "{accept}");
            assert!(answers[0]["result"].is_object(), "{answers:?}");
        }
        let unknown = site.send(&Message::modern("nothing", json!({})).with_field("Accept", accept)).await;
        assert_eq!((unknown.status, unknown.error_code()), (404, -32601), "HTTP errors should remain JSON");
    }
}
