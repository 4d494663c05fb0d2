//! Lines of an access log.

mod streams;

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use thruway_message::{Method, RequestHead, RequestTarget, Version};
use thruway_net::tls::TlsInfo;
use thruway_net::{ClientAddr, IpText};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::masking::masked;
use crate::record::Record;
use crate::response::{Forwarded, Refused};

/// Format of the lines. Times are in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessLogFormat {
    /// The common log format of NCSA and Apache.
    Common,
    /// The common format with `Referer` and `User-Agent`.
    Combined,
    /// One JSON object per line.
    Json,
}

/// Writes the lines of an access log. A format does not mask secrets; configure masking separately.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessLogLines {
    /// Format of the lines.
    pub format: AccessLogFormat,
    /// Query parameters that hold keys. Their values are replaced by `***` in request targets and `Referer`.
    /// Names are compared after decoding, ignoring case. Default: none.
    pub masked_parameters: Arc<[String]>,
}

impl From<AccessLogFormat> for AccessLogLines {
    fn from(format: AccessLogFormat) -> Self {
        Self { format, masked_parameters: Arc::default() }
    }
}

/// The time of day as text, updated once per second.
#[derive(Default)]
pub(super) struct Timestamps {
    second: Option<u64>,
    common: String,
    rfc3339: String,
}

impl AccessLogLines {
    /// Appends the line of `record`.
    pub(super) fn write(&self, line: &mut Vec<u8>, record: &Record<'_>, timestamps: &mut Timestamps) {
        timestamps.renew(record.time);
        match self.format {
            AccessLogFormat::Common => {
                self.write_common(line, record, timestamps);
                line.push(b'\n');
            }
            AccessLogFormat::Combined => {
                self.write_common(line, record, timestamps);
                for name in ["referer", "user-agent"] {
                    line.extend_from_slice(b" \"");
                    let value = record.head.and_then(|head| head.field(name));
                    let value = value.map_or(&b"-"[..], |value| value.as_bytes());
                    write_escaped(line, &masked(value, &self.masked_parameters));
                    line.push(b'"');
                }
                line.push(b'\n');
            }
            AccessLogFormat::Json => self.write_json(line, record, timestamps),
        }
    }

    /// `host - user [time] "request line" status bytes`.
    fn write_common(&self, line: &mut Vec<u8>, record: &Record<'_>, timestamps: &Timestamps) {
        write_client(line, record.client);
        line.extend_from_slice(b" - ");
        write_user(line, record.user);
        // Writing to a vector cannot fail.
        let _ = write!(line, " [{}] \"", timestamps.common);
        match &record.head {
            Some(head) => self.write_request_line(line, head),
            None => line.push(b'-'),
        }
        let _ = write!(line, "\" {} {}", record.status, record.content_bytes);
    }

    fn write_request_line(&self, line: &mut Vec<u8>, head: &RequestHead<'_>) {
        write_escaped(line, head.method.as_str().as_bytes());
        line.push(b' ');
        match head.target {
            RequestTarget::Origin(target) => {
                write_escaped(line, &masked(target.as_str().as_bytes(), &self.masked_parameters));
            }
            target => write_escaped(line, &masked(target.to_string().as_bytes(), &self.masked_parameters)),
        }
        line.push(b' ');
        line.extend_from_slice(head.version.as_str().as_bytes());
    }
}

/// Writes the name of a user, or `-`. A space would end the column, so it is escaped too.
fn write_user(line: &mut Vec<u8>, user: Option<&str>) {
    let name = user.filter(|name| !name.is_empty()).unwrap_or("-");
    for (place, word) in name.split(' ').enumerate() {
        if place > 0 {
            line.extend_from_slice(b"\\x20");
        }
        write_escaped(line, word.as_bytes());
    }
}

fn write_client(line: &mut Vec<u8>, client: ClientAddr) {
    match client {
        ClientAddr::Tcp(address) => line.extend_from_slice(IpText::from(address.ip()).as_bytes()),
        ClientAddr::Unix => line.extend_from_slice(b"unix:"),
    }
}

/// Escapes characters that could end the quoted string or the line, or control a terminal, like Apache.
fn write_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in shortened(bytes) {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            _ => {
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
}

/// Returns the part of a client's text that is logged, so that one request cannot fill the log.
fn shortened(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(VALUE_BYTES_MAX)]
}

/// Returns the text without characters that could mislead a reader of the log: control characters and marks
/// of text direction.
fn shown(bytes: &[u8]) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let text = String::from_utf8_lossy(shortened(bytes));
    text.chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A line of the JSON format. Members with dots have the names of the OpenTelemetry semantic conventions, and the
/// other ones are Thruway's own.
#[derive(Serialize)]
struct JsonLine<'a> {
    timestamp: &'a str,
    #[serde(flatten)]
    client: JsonClient,
    #[serde(rename = "user.name", skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(rename = "http.request.method")]
    method: Option<String>,
    #[serde(rename = "url.path", skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(rename = "url.query", skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(rename = "network.protocol.version")]
    version: Option<&'a str>,
    #[serde(rename = "server.address")]
    host: Option<String>,
    #[serde(rename = "server.port", skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(rename = "http.response.status_code")]
    status: u16,
    #[serde(rename = "http.response.body.size")]
    body_bytes: u64,
    /// Bytes from the client to a tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    received_bytes: Option<u64>,
    duration_us: u64,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<&'static str>,
    #[serde(rename = "http.request.header.referer", skip_serializing_if = "Option::is_none")]
    referer: Option<[String; 1]>,
    #[serde(rename = "user_agent.original", skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(flatten)]
    tls: Option<JsonTls<'a>>,
    #[serde(flatten)]
    forwarded: Option<JsonForwarded<'a>>,
    #[serde(flatten)]
    refused: Option<JsonRefused<'a>>,
}

/// Fields of the log line for the address of a client.
#[derive(Serialize)]
struct JsonClient {
    #[serde(rename = "client.address")]
    address: String,
    /// Proxies do not send the port.
    #[serde(rename = "client.port", skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

impl From<ClientAddr> for JsonClient {
    fn from(client: ClientAddr) -> Self {
        match client {
            ClientAddr::Tcp(address) => Self {
                address: address.ip().to_string(),
                port: Some(address.port()).filter(|port| *port != 0),
            },
            ClientAddr::Unix => Self { address: "unix:".to_owned(), port: None },
        }
    }
}

/// Fields of the log line for requests that a policy refused.
#[derive(Serialize)]
struct JsonRefused<'a> {
    policy: &'a str,
    reason: &'a str,
}

impl<'a> From<&'a Refused> for JsonRefused<'a> {
    fn from(Refused { policy, reason }: &'a Refused) -> Self {
        Self { policy, reason }
    }
}

/// Fields of the log line for connections with TLS.
#[derive(Serialize)]
struct JsonTls<'a> {
    #[serde(rename = "tls.protocol.version")]
    version: &'static str,
    #[serde(rename = "tls.cipher")]
    cipher_suite: &'a str,
    #[serde(rename = "tls.client.server_name", skip_serializing_if = "Option::is_none")]
    server_name: Option<String>,
    #[serde(rename = "tls.resumed")]
    resumed: bool,
    #[serde(rename = "tls.client.subject", skip_serializing_if = "Option::is_none")]
    client_subject: Option<String>,
    #[serde(rename = "tls.client.hash.sha256", skip_serializing_if = "Option::is_none")]
    client_fingerprint: Option<&'a str>,
}

impl<'a> From<&'a TlsInfo> for JsonTls<'a> {
    fn from(tls: &'a TlsInfo) -> Self {
        let certificate = tls.peer_certificate.as_ref();
        Self {
            version: tls.version.as_str().trim_start_matches("TLSv"),
            cipher_suite: tls.cipher_suite,
            server_name: tls.server_name.as_deref().map(|name| shown(name.as_bytes())),
            resumed: tls.is_resumed,
            client_subject: certificate.map(|certificate| shown(certificate.subject.as_bytes())),
            client_fingerprint: certificate.map(|certificate| &*certificate.fingerprint),
        }
    }
}

/// Fields of the log line for forwarded requests.
#[derive(Serialize)]
struct JsonForwarded<'a> {
    upstream: &'a str,
    upstream_server: Option<&'a str>,
    retries: u32,
    queue_us: u64,
    connect_us: Option<u64>,
    response_header_us: Option<u64>,
    #[serde(rename = "error.type", skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

impl<'a> From<&'a Forwarded> for JsonForwarded<'a> {
    fn from(forwarded: &'a Forwarded) -> Self {
        Self {
            upstream: &forwarded.upstream,
            upstream_server: forwarded.server.as_deref(),
            retries: forwarded.retries,
            queue_us: microseconds(forwarded.queue),
            connect_us: forwarded.connect.map(microseconds),
            response_header_us: forwarded.head.map(microseconds),
            failure: forwarded.failure,
            request_id: forwarded.request_id.as_deref(),
        }
    }
}

/// Returns the value of `network.protocol.version`.
fn protocol_version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "1.0",
        Version::Http2 => "2",
        _ => "1.1",
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl AccessLogLines {
    /// Appends a JSON object.
    fn write_json(&self, line: &mut Vec<u8>, record: &Record<'_>, timestamps: &Timestamps) {
        let head = record.head.as_ref();
        let shown_url = |url: &[u8]| shown(&masked(url, &self.masked_parameters));
        let field = |name| Some(shown_url(head?.field(name)?.as_bytes()));
        let target = head.map(|head| shown_url(head.target.to_string().as_bytes()));
        // The target of CONNECT is a host, which `server.address` has.
        let target = target.filter(|_| head.is_some_and(|head| head.method != Method::Connect));
        let (path, query) = target.as_deref().map_or((None, None), |target| match target.split_once('?') {
            Some((path, query)) => (Some(path.to_owned()), Some(query.to_owned())),
            None => (Some(target.to_owned()), None),
        });
        let authority = head.and_then(RequestHead::authority);
        let json = JsonLine {
            timestamp: &timestamps.rfc3339,
            client: record.client.into(),
            user: record.user.map(|user| shown(user.as_bytes())),
            method: head.map(|head| shown(head.method.as_str().as_bytes())),
            path,
            query,
            version: head.map(|head| protocol_version(head.version)),
            host: authority.map(|authority| shown(authority.host().as_bytes())),
            port: authority.and_then(|authority| authority.port()),
            status: record.status.as_u16(),
            body_bytes: record.content_bytes,
            received_bytes: record.received_bytes,
            duration_us: microseconds(record.duration),
            complete: record.is_complete,
            ended_by: record.is_cut_off.then_some("drain"),
            referer: field("referer").map(|referer| [referer]),
            user_agent: field("user-agent"),
            tls: record.connection.tls().map(JsonTls::from),
            forwarded: record.forwarded.map(JsonForwarded::from),
            refused: record.refused.map(JsonRefused::from),
        };
        let start = line.len();
        match serde_json::to_writer(&mut *line, &json) {
            Ok(()) => line.push(b'\n'),
            // Serializing strings and numbers cannot fail. If it does, remove the partial line.
            Err(_) => line.truncate(start),
        }
    }
}

impl Timestamps {
    fn renew(&mut self, time: SystemTime) {
        let second = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.second != Some(second) {
            let time = OffsetDateTime::from(time).replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
            self.common = time.format(COMMON).unwrap_or_default();
            self.rfc3339 = time.format(&Rfc3339).unwrap_or_default();
            self.second = Some(second);
        }
    }
}

/// Longer than most real values.
const VALUE_BYTES_MAX: usize = 2 << 10;

const COMMON: &[BorrowedFormatItem<'_>] =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_info::ConnectionInfo;
    use thruway_message::{FieldLineSpan, FieldLines, OriginForm, StatusCode};

    const BYTES: &[u8] = b"User-Agent: a\"b\\c\xff\x09d";
    const SPANS: [FieldLineSpan; 1] =
        [FieldLineSpan { name_start: 0, name_end: 10, value_start: 12, value_end: 20 }];

    fn line(format: AccessLogFormat, has_head: bool) -> String {
        let connection = ConnectionInfo {
            client: ClientAddr::Tcp("[::1]:5000".parse().unwrap()),
            peer: thruway_net::Peer::Unix { is_own_process: false },
            listener: 0,
            destination: None,
            tls: None,
            compression: <_>::default(),
        };
        let head = RequestHead {
            method: Method::Get,
            target: RequestTarget::Origin(OriginForm::new("/a\"b?c")),
            version: Version::Http11,
            field_lines: FieldLines::from_parsed(BYTES, &SPANS),
        };
        let record = Record {
            connection: &connection,
            client: connection.client,
            head: has_head.then_some(head),
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(951_786_061_500),
            status: StatusCode::NOT_FOUND,
            content_bytes: 12,
            received_bytes: None,
            duration: Duration::from_micros(345),
            forwarded: None,
            refused: None,
            user: None,
            is_complete: true,
            is_cut_off: false,
        };
        let mut line = Vec::new();
        AccessLogLines::from(format).write(&mut line, &record, &mut Timestamps::default());
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn the_name_of_a_user_stays_in_its_column() {
        let column = |user| {
            let mut line = Vec::new();
            write_user(&mut line, user);
            String::from_utf8(line).unwrap()
        };
        assert_eq!([None, Some(""), Some("bob")].map(column), ["-", "-", "bob"]);
        assert_eq!(column(Some("bob [a] \"\\\n")), "bob\\x20[a]\\x20\\\"\\\\\\x0a");
    }

    #[test]
    fn the_common_format_is_that_of_apache() {
        let expected = "::1 - - [29/Feb/2000:01:01:01 +0000] \"GET /a\\\"b?c HTTP/1.1\" 404 12\n";
        assert_eq!(line(AccessLogFormat::Common, true), expected);
        assert!(line(AccessLogFormat::Common, false).ends_with("\"-\" 404 12\n"));
    }

    #[test]
    fn the_combined_format_escapes_what_clients_send() {
        assert!(
            line(AccessLogFormat::Combined, true).ends_with("404 12 \"-\" \"a\\\"b\\\\c\\xff\\x09d\"\n"),
            "{}",
            line(AccessLogFormat::Combined, true)
        );
    }

    #[test]
    fn a_line_of_json_is_one_object() {
        let text = line(AccessLogFormat::Json, true);
        assert_eq!(text.matches('\n').count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["timestamp"], "2000-02-29T01:01:01Z");
        assert_eq!((&json["client.address"], &json["client.port"]), (&"::1".into(), &5000.into()));
        assert_eq!((&json["url.path"], &json["url.query"]), (&"/a\"b".into(), &"c".into()));
        assert_eq!(
            (&json["http.response.status_code"], &json["http.response.body.size"]),
            (&404.into(), &12.into())
        );
        assert_eq!((&json["duration_us"], &json["complete"]), (&345.into(), &true.into()));
        assert_eq!(json["user_agent.original"], "a\"b\\c\u{fffd}\u{fffd}d");
    }

    #[test]
    fn what_a_client_sends_is_shown_without_harm_and_not_without_end() {
        let sent = "a\u{9b}b\u{202e}c\u{2028}\u{1b}é".as_bytes();
        assert_eq!(shown(sent), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}é");
        assert_eq!(shown(&vec![b'x'; 30_000]).len(), VALUE_BYTES_MAX);
        let mut line = Vec::new();
        write_escaped(&mut line, &vec![0x80; 30_000]);
        assert_eq!(line.len(), 4 * VALUE_BYTES_MAX);
    }
}
