//! The values of a log line by name, for the formats with chosen members and for templates.

use std::borrow::Cow;
use std::time::Duration;

use thruway_message::{Method, RequestHead, RequestTarget};
use thruway_net::tls::TlsInfo;
use thruway_net::{ClientAddr, IpText, Peer};

use super::masking::masked;
use super::timestamps::Timestamps;
use crate::connection_info::ConnectionInfo;
use crate::record::{Record, StreamRecord};
use crate::response::Forwarded;

/// A value of a request or of a non-HTTP connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Variable {
    Timestamp,
    TimestampCommon,
    RequestLine,
    ClientAddress,
    ClientPort,
    /// The address of the client if it is an IP address.
    ClientIp,
    PeerAddress,
    PeerPort,
    User,
    Method,
    /// The method, or `_OTHER` if the method is unknown.
    KnownMethod,
    /// The method if it is unknown.
    UnknownMethod,
    Scheme,
    Target,
    Path,
    Query,
    Host,
    Port,
    HttpVersion,
    Status,
    BodyBytes,
    ReceivedBytes,
    SentBytes,
    Seconds,
    Microseconds,
    Nanoseconds,
    IsComplete,
    EndedBy,
    UserAgent,
    Header(Cow<'static, str>),
    /// A header as a list with one string.
    HeaderList(&'static str),
    TlsVersion,
    TlsProtocol,
    TlsCipher,
    TlsResumed,
    TlsServerName,
    TlsClientSubject,
    TlsClientFingerprint,
    Upstream,
    UpstreamServer,
    Retries,
    Queue,
    Connect,
    ResponseHeader,
    ErrorType,
    RequestId,
    Policy,
    Reason,
    /// The name of the route.
    Route,
    End,
    TraceId,
    SpanId,
    /// `failure` for responses with an error status and for incomplete responses, otherwise `success`.
    Outcome,
}

/// A request or a non-HTTP connection, with the data that its line needs.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) of: Recorded<'a>,
    pub(super) timestamps: &'a Timestamps,
    pub(super) masked_parameters: &'a [String],
}

#[derive(Clone, Copy)]
pub(super) enum Recorded<'a> {
    Request(&'a Record<'a>),
    Stream(&'a StreamRecord<'a>),
}

/// The value of a [`Variable`].
pub(super) enum Value<'a> {
    /// Text from a client or from the config, not escaped.
    Text(Cow<'a, [u8]>),
    List(Cow<'a, [u8]>),
    Number(u64),
    /// Shown in seconds.
    Seconds(Duration),
    Boolean(bool),
    /// The current second as text that ends with `Z`, and the microseconds.
    Timestamp(&'a str, u32),
    None,
}

/// Names of the variables in the config, in alphabetical order.
const NAMES: [(&str, Variable); 45] = [
    ("client.address", Variable::ClientAddress),
    ("client.port", Variable::ClientPort),
    ("complete", Variable::IsComplete),
    ("connect_us", Variable::Connect),
    ("duration_us", Variable::Microseconds),
    ("end", Variable::End),
    ("ended_by", Variable::EndedBy),
    ("error.type", Variable::ErrorType),
    ("http.request.method", Variable::Method),
    ("http.response.body.size", Variable::BodyBytes),
    ("http.response.status_code", Variable::Status),
    ("http.route", Variable::Route),
    ("http.server.request.duration", Variable::Seconds),
    ("network.peer.address", Variable::PeerAddress),
    ("network.peer.port", Variable::PeerPort),
    ("network.protocol.version", Variable::HttpVersion),
    ("policy", Variable::Policy),
    ("queue_us", Variable::Queue),
    ("reason", Variable::Reason),
    ("received_bytes", Variable::ReceivedBytes),
    ("request_id", Variable::RequestId),
    ("request_line", Variable::RequestLine),
    ("response_header_us", Variable::ResponseHeader),
    ("retries", Variable::Retries),
    ("sent_bytes", Variable::SentBytes),
    ("server.address", Variable::Host),
    ("server.port", Variable::Port),
    ("span_id", Variable::SpanId),
    ("timestamp", Variable::Timestamp),
    ("timestamp_common", Variable::TimestampCommon),
    ("tls.cipher", Variable::TlsCipher),
    ("tls.client.hash.sha256", Variable::TlsClientFingerprint),
    ("tls.client.server_name", Variable::TlsServerName),
    ("tls.client.subject", Variable::TlsClientSubject),
    ("tls.protocol.version", Variable::TlsVersion),
    ("tls.resumed", Variable::TlsResumed),
    ("trace_id", Variable::TraceId),
    ("upstream", Variable::Upstream),
    ("upstream_server", Variable::UpstreamServer),
    ("url.original", Variable::Target),
    ("url.path", Variable::Path),
    ("url.query", Variable::Query),
    ("url.scheme", Variable::Scheme),
    ("user.name", Variable::User),
    ("user_agent.original", Variable::UserAgent),
];

/// Prefix of the names of request headers.
const HEADER: &str = "http.request.header.";

impl Variable {
    /// Returns the variable with the name `name`, or `None` if the name is unknown.
    pub(super) fn named(name: &str) -> Option<Self> {
        if let Some(header) = name.strip_prefix(HEADER) {
            let is_name = !header.is_empty() && header.bytes().all(is_lowercase_token);
            return is_name.then(|| Self::Header(Cow::Owned(header.to_owned())));
        }
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| variable.clone())
    }

    /// Returns the names of all variables. The last name stands for all request headers.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name).chain(["http.request.header.NAME"])
    }

    pub(super) fn value<'a>(&self, source: &Source<'a>) -> Value<'a> {
        match source.of {
            Recorded::Request(record) => self.of_request(record, source),
            Recorded::Stream(record) => self.of_stream(record, source.timestamps),
        }
    }

    fn of_request<'a>(&self, record: &'a Record<'a>, source: &Source<'a>) -> Value<'a> {
        match self {
            Self::Timestamp => timestamp(source.timestamps),
            Self::TimestampCommon => text(&source.timestamps.common),
            Self::ClientAddress | Self::ClientIp | Self::ClientPort => self.of_client(record.client),
            Self::User => optional(record.user.filter(|name| !name.is_empty())),
            Self::Scheme => text(record.connection.scheme()),
            Self::Status => Value::Number(record.status.as_u16().into()),
            Self::BodyBytes | Self::SentBytes => Value::Number(record.content_bytes),
            Self::ReceivedBytes => record.received_bytes.map_or(Value::None, Value::Number),
            Self::Seconds | Self::Microseconds | Self::Nanoseconds => self.of_duration(record.duration),
            Self::IsComplete => Value::Boolean(record.is_complete),
            Self::EndedBy => optional(record.is_cut_off.then_some("drain")),
            Self::Policy => optional(record.refused.map(|refused| &*refused.policy)),
            Self::Reason => optional(record.refused.map(|refused| refused.reason)),
            Self::Route => optional(record.route),
            Self::TraceId => identifier(super::json::trace_id(record)),
            Self::SpanId => identifier(record.trace.map(|trace| trace.span_id.to_hex())),
            Self::Outcome => text(if is_failure(record) { "failure" } else { "success" }),
            Self::ErrorType => error_type(record),
            Self::Upstream
            | Self::UpstreamServer
            | Self::Retries
            | Self::Queue
            | Self::Connect
            | Self::ResponseHeader
            | Self::RequestId => {
                record.forwarded.map_or(Value::None, |forwarded| self.of_forwarded(forwarded))
            }
            _ => self.of_connection(record.connection).unwrap_or_else(|| {
                let head = record.head.as_ref();
                head.map_or(Value::None, |head| self.of_head(head, source.masked_parameters))
            }),
        }
    }

    fn of_stream<'a>(&self, record: &'a StreamRecord<'a>, timestamps: &'a Timestamps) -> Value<'a> {
        match self {
            Self::Timestamp => timestamp(timestamps),
            Self::TimestampCommon => text(&timestamps.common),
            Self::ClientAddress | Self::ClientIp | Self::ClientPort => {
                self.of_client(record.connection.client)
            }
            Self::Upstream => text(record.upstream),
            Self::UpstreamServer => optional(record.server),
            Self::Retries => Value::Number(record.retries.into()),
            Self::Connect => microseconds_or_none(record.connect),
            Self::ReceivedBytes => Value::Number(record.received_bytes),
            Self::SentBytes => Value::Number(record.sent_bytes),
            Self::Microseconds | Self::Nanoseconds => self.of_duration(record.duration),
            Self::End => text(record.end),
            Self::Outcome => text(if record.is_failure() { "failure" } else { "success" }),
            _ => self.of_connection(record.connection).unwrap_or(Value::None),
        }
    }

    fn of_client<'a>(&self, client: ClientAddr) -> Value<'a> {
        match (self, client) {
            (Self::ClientPort, ClientAddr::Tcp(address)) if address.port() != 0 => {
                Value::Number(address.port().into())
            }
            (Self::ClientAddress | Self::ClientIp, ClientAddr::Tcp(address)) => {
                Value::Text(Cow::Owned(IpText::from(address.ip()).as_bytes().to_vec()))
            }
            (Self::ClientAddress, ClientAddr::Unix) => text("unix:"),
            _ => Value::None,
        }
    }

    fn of_duration<'a>(&self, duration: Duration) -> Value<'a> {
        match self {
            Self::Seconds => Value::Seconds(duration),
            Self::Nanoseconds => Value::Number(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
            _ => microseconds(duration),
        }
    }

    /// Returns the value of a variable of the connection, or `None` for other variables.
    fn of_connection<'a>(&self, connection: &'a ConnectionInfo) -> Option<Value<'a>> {
        match (self, &connection.peer) {
            (Self::PeerAddress, Peer::Tcp { client, .. }) => {
                Some(Value::Text(Cow::Owned(IpText::from(client.ip()).as_bytes().to_vec())))
            }
            (Self::PeerPort, Peer::Tcp { client, .. }) => Some(Value::Number(client.port().into())),
            (Self::PeerAddress, Peer::Unix { .. }) => Some(text("unix:")),
            _ => match connection.tls() {
                Some(tls) => self.of_tls(tls),
                None => None,
            },
        }
    }

    fn of_tls<'a>(&self, tls: &'a TlsInfo) -> Option<Value<'a>> {
        let certificate = tls.peer_certificate.as_ref();
        Some(match self {
            Self::TlsVersion => text(tls.version.as_str().trim_start_matches("TLSv")),
            Self::TlsProtocol => text("tls"),
            Self::TlsCipher => text(tls.cipher_suite),
            Self::TlsResumed => Value::Boolean(tls.is_resumed),
            Self::TlsServerName => optional(tls.server_name.as_deref()),
            Self::TlsClientSubject => optional(certificate.map(|certificate| &*certificate.subject)),
            Self::TlsClientFingerprint => optional(certificate.map(|certificate| &*certificate.fingerprint)),
            _ => return None,
        })
    }

    fn of_forwarded<'a>(&self, forwarded: &'a Forwarded) -> Value<'a> {
        match self {
            Self::Upstream => text(&forwarded.upstream),
            Self::UpstreamServer => optional(forwarded.server.as_deref()),
            Self::Retries => Value::Number(forwarded.retries.into()),
            Self::Queue => microseconds(forwarded.queue),
            Self::Connect => microseconds_or_none(forwarded.connect),
            Self::ResponseHeader => microseconds_or_none(forwarded.head),
            Self::RequestId => optional(forwarded.request_id.as_deref()),
            _ => Value::None,
        }
    }

    fn of_head<'a>(&self, head: &'a RequestHead<'a>, masked_parameters: &[String]) -> Value<'a> {
        let authority = head.authority();
        match self {
            Self::RequestLine => Value::Text(Cow::Owned(request_line(head, masked_parameters))),
            Self::Method => text(head.method.as_str()),
            Self::KnownMethod => text(head.method.registered().map_or("_OTHER", |known| known.as_str())),
            Self::UnknownMethod => {
                let is_known = head.method.registered().is_some();
                optional((!is_known).then(|| head.method.as_str()))
            }
            Self::Target => Value::Text(target(head, masked_parameters)),
            Self::Path => path_and_query(head, masked_parameters).0,
            Self::Query => path_and_query(head, masked_parameters).1,
            Self::Host => optional(authority.map(|authority| authority.host())),
            Self::Port => {
                let port = authority.and_then(|authority| authority.port());
                port.map_or(Value::None, |port| Value::Number(port.into()))
            }
            Self::HttpVersion => text(super::json::protocol_version(head.version)),
            Self::UserAgent => header(head, "user-agent", masked_parameters),
            Self::Header(name) => header(head, name, masked_parameters),
            Self::HeaderList(name) => match header(head, name, masked_parameters) {
                Value::Text(text) => Value::List(text),
                other => other,
            },
            _ => Value::None,
        }
    }
}

/// Returns the error of a request: the error of the upstream (RFC 9209), or the status from 500.
fn error_type<'a>(record: &'a Record<'a>) -> Value<'a> {
    match record.forwarded.and_then(|forwarded| forwarded.failure) {
        Some(failure) => text(failure),
        None if record.status.as_u16() >= 500 => {
            Value::Text(Cow::Owned(itoa::Buffer::new().format(record.status.as_u16()).as_bytes().to_vec()))
        }
        None => Value::None,
    }
}

/// Returns `true` for requests that failed: the status is at least 500, or the response is incomplete.
pub(super) fn is_failure(record: &Record<'_>) -> bool {
    record.status.as_u16() >= 500 || !record.is_complete
}

/// Returns the request target of `head` with masked parameters.
pub(super) fn target<'h>(head: &RequestHead<'h>, masked_parameters: &[String]) -> Cow<'h, [u8]> {
    match head.target {
        RequestTarget::Origin(origin) => masked(origin.as_bytes(), masked_parameters),
        target => Cow::Owned(masked(target.to_string().as_bytes(), masked_parameters).into_owned()),
    }
}

fn request_line(head: &RequestHead<'_>, masked_parameters: &[String]) -> Vec<u8> {
    let (method, version) = (head.method.as_str().as_bytes(), head.version.as_str().as_bytes());
    [method, &target(head, masked_parameters), version].join(&b' ')
}

/// Returns the path and the query. The target of CONNECT is a host and port, so it has neither.
fn path_and_query<'a>(head: &RequestHead<'a>, masked_parameters: &[String]) -> (Value<'a>, Value<'a>) {
    if head.method == Method::Connect {
        return (Value::None, Value::None);
    }
    let target = target(head, masked_parameters);
    match target.iter().position(|byte| *byte == b'?') {
        None => (Value::Text(target), Value::None),
        Some(at) => match target {
            Cow::Borrowed(target) => {
                (Value::Text(Cow::Borrowed(&target[..at])), Value::Text(Cow::Borrowed(&target[at + 1..])))
            }
            Cow::Owned(mut target) => {
                let query = target.split_off(at + 1);
                target.pop();
                (Value::Text(Cow::Owned(target)), Value::Text(Cow::Owned(query)))
            }
        },
    }
}

fn header<'a>(head: &'a RequestHead<'a>, name: &str, masked_parameters: &[String]) -> Value<'a> {
    let value = head.field(name);
    value.map_or(Value::None, |value| Value::Text(masked(value.as_bytes(), masked_parameters)))
}

fn timestamp(timestamps: &Timestamps) -> Value<'_> {
    Value::Timestamp(&timestamps.rfc3339, timestamps.microseconds)
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text.as_bytes()))
}

fn identifier<'a, const DIGITS: usize>(id: Option<[u8; DIGITS]>) -> Value<'a> {
    id.map_or(Value::None, |id| Value::Text(Cow::Owned(id.to_vec())))
}

fn optional(value: Option<&str>) -> Value<'_> {
    value.map_or(Value::None, text)
}

fn microseconds<'a>(time: Duration) -> Value<'a> {
    Value::Number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn microseconds_or_none<'a>(time: Option<Duration>) -> Value<'a> {
    time.map_or(Value::None, microseconds)
}

/// Returns `true` for the bytes of a header name (RFC 9110 §5.6.2) in lower case.
const fn is_lowercase_token(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9')
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^')
        || matches!(byte, b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_finds_its_variable() {
        for (name, variable) in &NAMES {
            assert_eq!(Variable::named(name).as_ref(), Some(variable), "{name}");
        }
        assert!(NAMES.is_sorted_by(|(one, _), (other, _)| one < other));
        assert_eq!(Variable::named("http.request.header.x-a"), Some(Variable::Header("x-a".into())));
        for unknown in
            ["", "status", "http.request.header.", "http.request.header.X-A", "http.request.header.a b"]
        {
            assert_eq!(Variable::named(unknown), None, "{unknown}");
        }
    }
}
