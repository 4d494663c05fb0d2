//! Tests of the formats with variables.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use thruway_message::{
    FieldLineSpan, FieldLines, Method, OriginForm, RequestHead, RequestTarget, StatusCode, Version,
};
use thruway_net::ClientAddr;

use super::timestamps::Timestamps;
use super::*;
use crate::connection_info::ConnectionInfo;
use crate::record::{Record, StreamRecord};

const BYTES: &[u8] = b"User-Agent: a\"b\\c\xff\x09dReferer: /?k=secretHost: a.example:81";
const SPANS: [FieldLineSpan; 3] = [
    FieldLineSpan { name_start: 0, name_end: 10, value_start: 12, value_end: 20 },
    FieldLineSpan { name_start: 20, name_end: 27, value_start: 29, value_end: 39 },
    FieldLineSpan { name_start: 39, name_end: 43, value_start: 45, value_end: 57 },
];

fn connection() -> ConnectionInfo {
    ConnectionInfo {
        client: ClientAddr::Tcp("[::1]:5000".parse().unwrap()),
        peer: thruway_net::Peer::Tcp { client: "192.0.2.1:6000".parse().unwrap(), listener_port: 80 },
        listener: 0,
        destination: None,
        tls: None,
        compression: <_>::default(),
        handler_settings: None,
    }
}

/// Returns the line of a request with a masked parameter `k`.
fn line(format: AccessLogFormat, method: Method<'_>) -> String {
    let connection = connection();
    let head = RequestHead {
        method,
        target: RequestTarget::Origin(OriginForm::new("/a\"b?k=secret&c")),
        version: Version::Http11,
        field_lines: FieldLines::from_parsed(BYTES, &SPANS),
    };
    let record = Record {
        connection: &connection,
        client: connection.client,
        scheme: "http",
        head: Some(head),
        time: SystemTime::UNIX_EPOCH + Duration::from_micros(951_786_061_000_042),
        status: StatusCode::new(503).unwrap(),
        content_bytes: 12,
        received_bytes: None,
        duration: Duration::from_micros(1_000_345),
        forwarded: None,
        refused: None,
        user: Some("ada"),
        route: Some("files"),
        trace: None,
        is_complete: true,
        is_cut_off: false,
        is_logged: true,
    };
    let lines = AccessLogLines { masked_parameters: Arc::new(["k".to_owned()]), ..format.into() };
    let mut line = Vec::new();
    lines.write(&mut line, &record, &mut Timestamps::default());
    one_line(line)
}

fn stream_line(format: AccessLogFormat) -> String {
    let connection = connection();
    let record = StreamRecord {
        connection: &connection,
        time: SystemTime::UNIX_EPOCH,
        upstream: "db",
        server: None,
        retries: 1,
        connect: None,
        received_bytes: 3,
        sent_bytes: 4,
        duration: Duration::from_millis(5),
        end: "broken_off",
    };
    let mut line = Vec::new();
    AccessLogLines::from(format).write_stream(&mut line, &record, &mut Timestamps::default());
    one_line(line)
}

fn one_line(line: Vec<u8>) -> String {
    let line = String::from_utf8(line).unwrap();
    let line = line.strip_suffix('\n').unwrap();
    assert!(!line.contains(char::is_control), "{line}");
    line.to_owned()
}

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn otel_format_has_the_names_and_units_of_the_semantic_conventions() {
    let expected = json!({
        "timestamp": "2000-02-29T01:01:01.000042Z", "client.address": "::1", "client.port": 5000,
        "network.peer.address": "192.0.2.1", "network.peer.port": 6000, "user.name": "ada",
        "http.request.method": "_OTHER", "http.request.method_original": "PURGE", "http.route": "files",
        "url.scheme": "http",
        "url.path": "/a\"b", "url.query": "k=***&c", "server.address": "a.example", "server.port": 81,
        "network.protocol.version": "1.1", "http.response.status_code": 503, "http.response.body.size": 12,
        "http.server.request.duration": 1.000_345, "error.type": "503",
        "user_agent.original": "a\"b\\c\u{fffd}\u{fffd}d", "http.request.header.referer": ["/?k=***"],
        "thruway.duration_us": 1_000_345, "thruway.complete": true, "thruway.sent_bytes": 12,
    });
    assert_eq!(json_of(&line(AccessLogFormat::Otel, Method::Other("PURGE"))), expected);
    let stream = json!({
        "timestamp": "1970-01-01T00:00:00.000000Z", "client.address": "::1", "client.port": 5000,
        "network.peer.address": "192.0.2.1", "network.peer.port": 6000, "thruway.duration_us": 5000,
        "thruway.end": "broken_off", "thruway.received_bytes": 3, "thruway.sent_bytes": 4,
        "thruway.upstream": "db", "thruway.retries": 1,
    });
    assert_eq!(json_of(&stream_line(AccessLogFormat::Otel)), stream);
}

#[test]
fn ecs_format_has_the_names_and_units_of_the_elastic_common_schema() {
    let line = line(AccessLogFormat::Ecs, Method::Get);
    assert!(line.starts_with("{\"@timestamp\":\"2000-02-29T01:01:01.000042Z\",\"message\":"), "{line}");
    let expected = json!({
        "@timestamp": "2000-02-29T01:01:01.000042Z", "message": "GET /a\"b?k=***&c HTTP/1.1",
        "log.level": "info", "ecs.version": "8.11.0", "event.dataset": "thruway.access", "event.kind": "event",
        "event.category": ["web"], "event.type": ["access"], "event.outcome": "failure",
        "event.duration": 1_000_345_000, "client.address": "::1", "client.ip": "::1", "client.port": 5000,
        "user.name": "ada", "http.request.method": "GET", "http.request.referrer": "/?k=***",
        "http.response.status_code": 503, "http.response.body.bytes": 12, "http.version": "1.1",
        "url.scheme": "http", "url.original": "/a\"b?k=***&c", "url.path": "/a\"b", "url.query": "k=***&c",
        "url.domain": "a.example", "url.port": 81, "user_agent.original": "a\"b\\c\u{fffd}\u{fffd}d",
        "error.type": "503", "thruway.complete": true, "thruway.sent_bytes": 12, "thruway.route": "files",
    });
    assert_eq!(json_of(&line), expected);
    assert_eq!(json_of(&stream_line(AccessLogFormat::Ecs))["event.outcome"], "failure");
}

#[test]
fn template_escapes_client_text_and_marks_missing_values() {
    let text = "{{{client.address}}} {user.name} \"{request_line}\" \"{http.request.header.user-agent}\" \
                {http.response.status_code} {http.server.request.duration} {upstream} {http.route} {timestamp_common}";
    let format = AccessLogFormat::Template(AccessLogTemplate::parse(text).unwrap());
    let expected = "{::1} ada \"PURGE /a\\\"b?k=***&c HTTP/1.1\" \"a\\\"b\\\\c\\xff\\x09d\" 503 1.000345 - files \
                    29/Feb/2000:01:01:01 +0000";
    assert_eq!(line(format.clone(), Method::Other("PURGE")), expected);
    let stream = "{::1} - \"-\" \"-\" - - db - 01/Jan/1970:00:00:00 +0000";
    assert_eq!(stream_line(format), stream);
}

#[test]
fn members_give_json_with_chosen_names() {
    let pairs = [("a\"b", "url.path"), ("up", "upstream"), ("code", "http.response.status_code")];
    let format = AccessLogFormat::Members(AccessLogMembers::new(pairs).unwrap());
    assert_eq!(json_of(&line(format.clone(), Method::Get)), json!({ "a\"b": "/a\"b", "code": 503 }));
    assert_eq!(json_of(&stream_line(format)), json!({ "up": "db" }));
    assert_eq!(AccessLogMembers::new([("a", "upstream"), ("b", "nothing")]), Err(1));
}

#[test]
fn trace_of_the_client_is_logged_if_tracing_is_off() {
    let bytes = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let spans = [FieldLineSpan { name_start: 0, name_end: 11, value_start: 13, value_end: 68 }];
    let connection = connection();
    let head = RequestHead {
        method: Method::Get,
        target: RequestTarget::Origin(OriginForm::new("/")),
        version: Version::Http11,
        field_lines: FieldLines::from_parsed(bytes, &spans),
    };
    let record = Record {
        connection: &connection,
        client: connection.client,
        scheme: "http",
        head: Some(head),
        time: SystemTime::UNIX_EPOCH,
        status: StatusCode::OK,
        content_bytes: 0,
        received_bytes: None,
        duration: Duration::ZERO,
        forwarded: None,
        refused: None,
        user: None,
        route: None,
        trace: None,
        is_complete: true,
        is_cut_off: false,
        is_logged: true,
    };
    let template = AccessLogTemplate::parse("{trace_id} {span_id}").unwrap();
    let lines = AccessLogLines::from(AccessLogFormat::Template(template));
    let mut line = Vec::new();
    lines.write(&mut line, &record, &mut Timestamps::default());
    assert_eq!(one_line(line), "0af7651916cd43dd8448eb211c80319c -");
}

/// All variables accept every byte of a client, and never break a line.
#[test]
fn no_variable_lets_client_text_end_a_line() {
    for name in AccessLogMembers::variables() {
        let name = name.replace("NAME", "user-agent");
        let template = AccessLogTemplate::parse(&format!("<{{{name}}}>")).unwrap();
        let text = line(AccessLogFormat::Template(template), Method::Other("A"));
        assert!(text.starts_with('<') && text.ends_with('>'), "{text}");
        let members = AccessLogMembers::new([("a", &*name)]).unwrap();
        assert!(json_of(&line(AccessLogFormat::Members(members), Method::Other("A"))).is_object());
    }
}
