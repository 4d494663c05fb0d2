//! MCP requests, which are encoded once and sent many times. Only ids, sessions and placeholders differ
//! between requests.

use serde_json::{Value, json};
use thruway_http1::ResponseTo;
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, Revision, header_value};
use thruway_message::{FieldName, FieldValue, Method};

use crate::requests::error::InvalidRequest;
use crate::requests::template::{Template, mixed, write_number};
use crate::requests::url::LoadUrl;

/// An MCP operation with the options of the user.
#[derive(Clone, PartialEq, Debug)]
pub struct McpOperation {
    /// The method, such as `tools/call`.
    pub method: String,
    /// The parameters: a JSON object. The strings in this object may contain placeholders.
    pub params: Value,
    /// Header fields that repeat arguments of a tool call. Only the modern era of MCP uses such header
    /// fields.
    pub mirrored: Vec<(String, String)>,
    /// The weight of the operation: an operation of weight 2 is sent twice as often as an operation of
    /// weight 1.
    pub weight: u32,
}

/// An MCP endpoint (Streamable HTTP).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The URL of the endpoint.
    pub url: LoadUrl,
    /// Additional header fields of each request.
    pub headers: Vec<(String, String)>,
    /// `true` if the connection stays open after the response.
    pub is_persistent: bool,
}

/// Lifetime of MCP sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionUse {
    /// No sessions: each request is independent, as in the revisions since 2026-07-28.
    None,
    /// The first request of a connection begins a session, which lasts as long as the connection.
    PerConnection,
    /// Each request begins a session with `initialize` and ends it with `DELETE`. The measured time of the
    /// request includes all messages of this session.
    PerCall,
}

/// All messages of a load.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) sessions: SessionUse,
    operations: Vec<Message>,
    /// Indexes into `operations`. The index of an operation with the weight 3 occurs three times.
    units: Vec<usize>,
    initialize: Message,
    initialized: Message,
    /// The head of a `DELETE` request, without the session id line and without the empty line at the end.
    delete: Vec<u8>,
}

/// An encoded message, with its HTTP head.
#[derive(Debug)]
pub(super) struct Message {
    /// The HTTP head, without the lines for session id and length, and without the empty line at the end.
    head: Vec<u8>,
    /// Bytes before the id, or the start of a message without an id.
    start: &'static [u8],
    /// Bytes after the id.
    rest: Template,
}

impl Messages {
    pub(super) fn new(
        revision: Revision,
        sessions: SessionUse,
        operations: &[McpOperation],
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let weights = operations.iter().map(|operation| operation.weight as usize).enumerate();
        let units: Vec<_> = weights.flat_map(|(index, weight)| std::iter::repeat_n(index, weight)).collect();
        if units.is_empty() {
            return Err(InvalidRequest::None);
        }
        let of = |operation: &McpOperation| Message::request(operation, revision, endpoint);
        let legacy = |method: &str, params: Value| {
            let operation =
                McpOperation { method: method.to_owned(), params, mirrored: Vec::new(), weight: 1 };
            // Sessions exist only in the legacy era, so messages that start a session use a legacy
            // revision.
            Message::request(&operation, revision.min(Revision::LATEST_LEGACY), endpoint)
        };
        let client = json!({"name": "thruway-bench", "version": env!("CARGO_PKG_VERSION")});
        let initialize =
            json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client});
        let initialized = legacy(methods::NOTIFICATIONS_INITIALIZED, json!({}))?.into_notification();
        Ok(Self {
            sessions,
            operations: operations.iter().map(of).collect::<Result<_, _>>()?,
            units,
            initialize: legacy(methods::INITIALIZE, initialize)?,
            initialized,
            delete: endpoint.map_or(Ok(Vec::new()), |endpoint| endpoint.head("DELETE", revision, &[]))?,
        })
    }

    fn chosen(&self, number: u64) -> &Message {
        let unit = mixed(number) % self.units.len() as u64;
        &self.operations[self.units[usize::try_from(unit).unwrap_or(0)]]
    }

    pub(super) fn write_operation(&self, number: u64, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        self.chosen(number).write(number, id_of(number), session, output)
    }

    pub(super) fn write_initialize(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo {
        self.initialize.write(number, INITIALIZE_ID, b"", output)
    }

    pub(super) fn write_initialized(&self, number: u64, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        self.initialized.write(number, 0, session, output)
    }

    pub(super) fn write_delete(&self, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        output.extend_from_slice(&self.delete);
        output.extend_from_slice(session);
        output.extend_from_slice(b"\r\n");
        ResponseTo::from(Method::Delete)
    }

    /// Appends the operation of request `number` as a line.
    pub(super) fn write_line(&self, number: u64, output: &mut Vec<u8>) {
        self.chosen(number).write_content(number, id_of(number), output);
        output.push(b'\n');
    }
}

impl Message {
    pub(super) fn request(
        operation: &McpOperation,
        revision: Revision,
        endpoint: Option<&Endpoint>,
    ) -> Result<Self, InvalidRequest> {
        let mut params = operation.params.clone();
        let mut fields = Vec::new();
        if revision.era() == Era::Modern {
            params["_meta"] = meta(revision);
            fields.push(("Mcp-Method".to_owned(), operation.method.clone()));
            fields.extend(mirrored_name(operation).map(|name| ("Mcp-Name".to_owned(), name)));
            fields.extend(operation.mirrored.iter().cloned());
        }
        let head = endpoint.map_or(Ok(Vec::new()), |endpoint| endpoint.head("POST", revision, &fields))?;
        let rest = format!(r#","method":{},"params":{params}}}"#, Value::from(&*operation.method));
        Ok(Self { head, start: START, rest: Template::new(rest.as_bytes()) })
    }

    pub(super) fn into_notification(self) -> Self {
        let rest = format!(r#""method":"{}"}}"#, methods::NOTIFICATIONS_INITIALIZED);
        Self { start: NOTIFICATION_START, rest: Template::new(rest.as_bytes()), ..self }
    }

    pub(super) fn write(&self, number: u64, id: u64, session: &[u8], output: &mut Vec<u8>) -> ResponseTo {
        output.extend_from_slice(&self.head);
        output.extend_from_slice(session);
        output.extend_from_slice(b"Content-Length: ");
        write_number(output, self.content_bytes(number, id));
        output.extend_from_slice(b"\r\n\r\n");
        self.write_content(number, id, output);
        ResponseTo::from(Method::Post)
    }

    fn content_bytes(&self, number: u64, id: u64) -> u64 {
        let id_bytes = if self.has_id() { digits(id) } else { 0 };
        self.start.len() as u64 + id_bytes + self.rest.length(number)
    }

    pub(super) fn write_content(&self, number: u64, id: u64, output: &mut Vec<u8>) {
        output.extend_from_slice(self.start);
        if self.has_id() {
            write_number(output, id);
        }
        self.rest.write(number, output);
    }

    fn has_id(&self) -> bool {
        self.start == START
    }
}

impl Endpoint {
    /// Returns an HTTP head, without the lines for session id and length, and without the empty line at the
    /// end.
    pub(super) fn head(
        &self,
        method: &str,
        revision: Revision,
        fields: &[(String, String)],
    ) -> Result<Vec<u8>, InvalidRequest> {
        let LoadUrl { host, target, .. } = &self.url;
        let is_given = |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
        let mut push = |name: &str, value: &str| {
            FieldName::new(name.as_bytes()).map_err(|_| InvalidRequest::HeaderName(name.to_owned()))?;
            FieldValue::new(value.as_bytes()).map_err(|_| InvalidRequest::HeaderValue(name.to_owned()))?;
            head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            Ok(())
        };
        if !is_given("host") {
            push("Host", host)?;
        }
        push("Accept", "application/json, text/event-stream")?;
        if method == "POST" {
            push("Content-Type", "application/json")?;
        }
        push("MCP-Protocol-Version", revision.as_str())?;
        if !self.is_persistent {
            push("Connection", "close")?;
        }
        for (name, value) in fields {
            push(name, &header_value::encode(value))?;
        }
        for (name, value) in &self.headers {
            if RESERVED_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                return Err(InvalidRequest::ReservedHeader(name.clone()));
            }
            push(name, value)?;
        }
        Ok(head)
    }
}

/// Returns the `_meta` member, which each request contains since revision 2026-07-28.
fn meta(revision: Revision) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": revision.as_str(),
        "io.modelcontextprotocol/clientInfo": {"name": "thruway-bench", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn mirrored_name(operation: &McpOperation) -> Option<String> {
    let member = match &*operation.method {
        methods::TOOLS_CALL | methods::PROMPTS_GET => "name",
        methods::RESOURCES_READ => "uri",
        _ => return None,
    };
    operation.params[member].as_str().map(str::to_owned)
}

/// Returns the JSON-RPC id of request `number`, which is unique in a load.
pub(super) const fn id_of(number: u64) -> u64 {
    number + 1
}

const fn digits(number: u64) -> u64 {
    match number.checked_ilog10() {
        Some(power) => power as u64 + 1,
        None => 1,
    }
}

/// The id of the `initialize` request. No operation has this id.
pub(super) const INITIALIZE_ID: u64 = 0;

const START: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
const NOTIFICATION_START: &[u8] = br#"{"jsonrpc":"2.0","#;

/// Header fields that users cannot set.
const RESERVED_HEADERS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];
