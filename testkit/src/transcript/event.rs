//! Events of client and server connections, with owned data.

use std::fmt;

use thruway_http1::{BodyLength, ClientEvent, HeadIndex, RequestFacts, ServerEvent};
use thruway_message::{FieldLines, FieldName, FieldValue, Method, ResponseHead, StatusCode, Version};

/// Field lines: names (in their received case) and values.
pub type Fields = Vec<(String, Vec<u8>)>;

/// One event of a connection. `Display` writes a short line without the fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The head of a request.
    Request {
        /// The method.
        method: String,
        /// The request target, serialized.
        target: String,
        /// The header section.
        fields: Fields,
        /// Facts that determine the next state of the connection.
        facts: RequestFacts,
    },
    /// The head of an interim response.
    Interim(Response),
    /// The head of a final response, and the length of its body.
    Response(Response, BodyLength),
    /// The head of a response that turns the connection into a tunnel.
    Tunnel(Response),
    /// Content. A transcript joins consecutive pieces.
    Content(Vec<u8>),
    /// The end of the content, with the trailer section.
    EndOfContent(Fields),
    /// The end of the content, because the connection ended.
    EndedByClose,
}

/// The head of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The status code.
    pub status: StatusCode,
    /// The reason phrase.
    pub reason: Vec<u8>,
    /// The version of the server.
    pub version: Version,
    /// The header section.
    pub fields: Fields,
}

impl Event {
    /// Converts an event of a server connection. The event refers to `bytes`.
    ///
    /// # Panics
    /// Panics if the event is inconsistent.
    pub fn from_server(event: ServerEvent<'_>, bytes: &[u8], index: &HeadIndex) -> Self {
        match event {
            ServerEvent::Request => {
                let (head, facts) = (index.request_head(bytes), *index.request_facts());
                assert_eq!(Method::from_token(head.method.as_str().as_bytes()), Ok(head.method));
                assert_eq!(head.version, facts.version);
                Self::Request {
                    method: head.method.to_string(),
                    target: head.target.to_string(),
                    fields: owned(head.field_lines),
                    facts,
                }
            }
            ServerEvent::Content(bytes) => Self::content(bytes),
            ServerEvent::EndOfContent => Self::EndOfContent(owned(index.field_lines(bytes))),
        }
    }

    /// Converts an event of a client connection. The event refers to `bytes`.
    ///
    /// # Panics
    /// Panics if the event is inconsistent.
    pub fn from_client(event: ClientEvent<'_>, bytes: &[u8], index: &HeadIndex) -> Self {
        let head = || index.response_head(bytes).into();
        match event {
            ClientEvent::Interim => Self::Interim(head()),
            ClientEvent::Response(length) => Self::Response(head(), length),
            ClientEvent::Tunnel => Self::Tunnel(head()),
            ClientEvent::Content(bytes) => Self::content(bytes),
            ClientEvent::EndOfContent => Self::EndOfContent(owned(index.field_lines(bytes))),
        }
    }

    fn content(bytes: &[u8]) -> Self {
        assert!(!bytes.is_empty(), "a content event must not be empty");
        Self::Content(bytes.to_vec())
    }
}

impl From<ResponseHead<'_>> for Response {
    fn from(head: ResponseHead<'_>) -> Self {
        Self {
            status: head.status,
            reason: head.reason.to_vec(),
            version: head.version,
            fields: owned(head.field_lines),
        }
    }
}

/// Copies the lines. Asserts that each of them can be serialized.
fn owned(lines: FieldLines<'_>) -> Fields {
    lines
        .iter()
        .map(|line| {
            assert!(FieldName::new(line.name.as_bytes()).is_ok(), "{lines:?}");
            assert!(FieldValue::new(line.value.as_bytes()).is_ok(), "{lines:?}");
            (line.name.to_string(), line.value.as_bytes().to_vec())
        })
        .collect()
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { method, target, facts, .. } => {
                write!(f, "{method} {target} {}", facts.version)?;
                f.write_str(&body(facts.body_length))?;
                for (applies, text) in [
                    (facts.expects_continue, ", expects continue"),
                    (facts.wants_tunnel, ", wants a tunnel"),
                    (!facts.is_persistent, ", last"),
                ] {
                    f.write_str(if applies { text } else { "" })?;
                }
                Ok(())
            }
            Self::Interim(head) => write!(f, "interim {}", head.status),
            Self::Response(head, length) => write!(f, "{} {}{}", head.version, head.status, body(*length)),
            Self::Tunnel(head) => write!(f, "tunnel {}", head.status),
            Self::Content(bytes) => write!(f, "content {}", bytes.escape_ascii()),
            Self::EndOfContent(trailers) if trailers.is_empty() => f.write_str("end"),
            Self::EndOfContent(trailers) => {
                let names: Vec<&str> = trailers.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "end with {}", names.join(", "))
            }
            Self::EndedByClose => f.write_str("end by close"),
        }
    }
}

fn body(length: BodyLength) -> String {
    match length {
        BodyLength::NONE => String::new(),
        BodyLength::Bytes(bytes) => format!(", {bytes} bytes"),
        BodyLength::Chunked => String::from(", chunked"),
        BodyLength::UntilClose => String::from(", until close"),
    }
}
