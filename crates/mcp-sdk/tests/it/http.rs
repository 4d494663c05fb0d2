//! An HTTP client of an MCP endpoint, in memory.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::{McpServer, Revision};
use thruway_server::Handler;
use thruway_testkit::test_server::{TestClient, TestServer};

/// A server and its endpoint.
pub(crate) struct Site {
    scene: TestServer,
}

/// A request, by POST or another method.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

/// A response while it arrives.
pub(crate) struct Exchange {
    client: TestClient,
    received: Vec<u8>,
    /// The received body, without the framing.
    content: Vec<u8>,
    head: Option<String>,
    is_complete: bool,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and field lines.
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

/// An event of a stream.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    /// `None` if the event has no data.
    pub(crate) message: Option<Value>,
}

impl Site {
    pub(crate) fn new(server: &McpServer) -> Self {
        Self { scene: TestServer::new(server.endpoint()) }
    }

    /// Starts a drain.
    pub(crate) fn drain(&self) {
        self.scene.drain();
    }

    /// Creates a site from a configured endpoint, or from several.
    pub(crate) fn of(endpoint: impl Handler) -> Self {
        Self { scene: TestServer::new(endpoint) }
    }

    /// Sends a message on its own connection.
    pub(crate) fn open(&self, message: &Message) -> Exchange {
        self.open_with(&message.to_bytes())
    }

    /// Sends bytes. The caller may [add](Exchange::send) more.
    pub(crate) fn open_with(&self, bytes: &[u8]) -> Exchange {
        let mut client = self.scene.connect();
        client.send(bytes);
        Exchange { client, received: Vec::new(), content: Vec::new(), head: None, is_complete: false }
    }

    /// Sends a message and waits for the whole response.
    pub(crate) async fn send(&self, message: &Message) -> Response {
        self.open(message).response().await
    }

    /// Returns the result of a modern request.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let response = self.send(&Message::modern(method, params)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let mut message = response.message();
        assert!(message["error"].is_null(), "{message}");
        message["result"].take()
    }

    /// Returns the status and the error code of the response to a message.
    pub(crate) async fn refused(&self, message: &Message) -> (u16, i64) {
        let response = self.send(message).await;
        (response.status, response.error_code())
    }

    /// Lets the server run until it is idle.
    pub(crate) async fn settle() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Message {
    /// A modern request, with the headers that mirror it.
    pub(crate) fn modern(method: &str, params: Value) -> Self {
        Self::modern_with(method, params, &json!({}))
    }

    /// A modern request of a client with these capabilities.
    pub(crate) fn modern_with(method: &str, params: Value, capabilities: &Value) -> Self {
        let params = with_meta(params, capabilities);
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str().map(str::to_owned),
            "resources/read" => params["uri"].as_str().map(str::to_owned),
            "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str().map(str::to_owned),
            _ => None,
        };
        let message = request(1, method, &params);
        let mut message = Self::post(&message)
            .with_field("MCP-Protocol-Version", Revision::LATEST.as_str())
            .with_field("Mcp-Method", method);
        if let Some(name) = name {
            message = message.with_field("Mcp-Name", &name);
        }
        message
    }

    /// Any message, with the required headers.
    pub(crate) fn post(message: &Value) -> Self {
        Self::post_bytes(message.to_string())
    }

    pub(crate) fn post_bytes(content: impl Into<Vec<u8>>) -> Self {
        let message =
            Self { method: "POST", target: MCP.to_owned(), fields: Vec::new(), content: content.into() };
        message
            .with_field("Host", "localhost:8080")
            .with_field("Content-Type", "application/json")
            .with_field("Accept", "application/json, text/event-stream")
    }

    pub(crate) fn without_content(method: &'static str) -> Self {
        let message = Self { method, target: MCP.to_owned(), fields: Vec::new(), content: Vec::new() };
        message.with_field("Host", "localhost").with_field("Accept", "text/event-stream")
    }

    /// Changes the target.
    pub(crate) fn to(self, target: impl Into<String>) -> Self {
        Self { target: target.into(), ..self }
    }

    /// Replaces all fields with this name.
    pub(crate) fn with_field(mut self, name: &str, value: &str) -> Self {
        self = self.without_field(name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without_field(mut self, name: &str) -> Self {
        self.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    /// Returns the bytes of the request. Adds the length unless there is a transfer coding.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.fields {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !self.fields.iter().any(|(name, _)| name == "Transfer-Encoding") {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", self.content.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.content);
        bytes
    }
}

/// Adds the required metadata of a modern request to parameters.
pub(crate) fn with_meta(mut params: Value, capabilities: &Value) -> Value {
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = Revision::LATEST.as_str().into();
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    params
}

impl Exchange {
    /// Sends more of the request.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.client.send(bytes);
    }

    /// Takes the received bytes.
    pub(crate) fn advance(&mut self) {
        self.received.extend(self.client.received_bytes());
        if self.head.is_none()
            && let Some(end) = find(&self.received, b"\r\n\r\n")
        {
            self.head = Some(String::from_utf8(self.received.drain(..end + 4).collect()).unwrap());
        }
        let Some(head) = self.head.as_ref().map(|head| head.to_ascii_lowercase()) else { return };
        if head.contains("transfer-encoding: chunked") {
            self.take_chunks();
        } else {
            self.content.append(&mut self.received);
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            self.is_complete = self.content.len() == length.map_or(0, |length| length.parse().unwrap());
        }
    }

    fn take_chunks(&mut self) {
        while let Some(end) = find(&self.received, b"\r\n") {
            let length = std::str::from_utf8(&self.received[..end]).unwrap();
            let length = usize::from_str_radix(length, 16).unwrap();
            if self.received.len() < end + 4 + length {
                return;
            }
            self.content.extend_from_slice(&self.received[end + 2..end + 2 + length]);
            self.received.drain(..end + 4 + length);
            self.is_complete |= length == 0;
        }
    }

    /// Waits until `done` returns a value.
    pub(crate) async fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..STEPS_MAX {
            self.advance();
            if let Some(found) = done(self) {
                return found;
            }
            Site::settle().await;
        }
        panic!("no more data arrived after {:?} {}", self.head, String::from_utf8_lossy(&self.content));
    }

    pub(crate) async fn response(mut self) -> Response {
        self.until(|exchange| exchange.is_complete.then_some(())).await;
        let head = self.head.unwrap();
        Response { status: head[9..12].parse().unwrap(), head, content: self.content }
    }

    /// Waits until the server is idle, runs `action`, and returns the response.
    pub(crate) async fn response_after(self, action: impl FnOnce()) -> Response {
        Site::settle().await;
        action();
        self.response().await
    }

    /// Returns the next event of a stream, or `None` at its end. Skips comments.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        self.until(|exchange| match exchange.take_event() {
            Some(event) => Some(Some(event)),
            None => (exchange.is_complete && exchange.content.is_empty()).then_some(None),
        })
        .await
    }

    /// Returns the message of the next event.
    pub(crate) async fn next_message(&mut self) -> Value {
        loop {
            if let Some(message) = self.next_event().await.expect("the stream has ended").message {
                return message;
            }
        }
    }

    /// Returns the lines of the next event.
    pub(crate) async fn next_lines(&mut self) -> String {
        self.until(|exchange| {
            let end = find(&exchange.content, b"\n\n")?;
            Some(String::from_utf8(exchange.content.drain(..end + 2).collect()).unwrap())
        })
        .await
    }

    /// Returns the next event, if it has arrived.
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        loop {
            let end = find(&self.content, b"\n\n")?;
            let lines = String::from_utf8(self.content.drain(..end + 2).collect()).unwrap();
            if let Some(event) = Event::parse(&lines) {
                return Some(event);
            }
        }
    }

    /// Waits for the head of the response.
    pub(crate) async fn head(&mut self) -> String {
        self.until(|exchange| exchange.head.clone()).await
    }

    /// Resets the connection.
    pub(crate) fn leave(mut self) {
        self.client.reset();
        assert!(self.client.is_closed());
    }

    /// Returns the connection.
    pub(crate) const fn client(&mut self) -> &mut TestClient {
        &mut self.client
    }

    /// `true` if no byte of a response has arrived.
    pub(crate) fn is_pending(&mut self) -> bool {
        self.advance();
        self.head.is_none()
    }
}

impl Event {
    fn parse(lines: &str) -> Option<Self> {
        let field = |name: &str| lines.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let data = field("data:");
        let id = field("id:").map(str::to_owned);
        if data.is_none() && id.is_none() {
            return None;
        }
        let message = data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap());
        Some(Self { id, message })
    }
}

impl Response {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.content).unwrap()
    }

    /// Returns the message in the body.
    pub(crate) fn message(&self) -> Value {
        assert_eq!(self.field("content-type"), Some("application/json"), "{}", self.head);
        serde_json::from_slice(&self.content).unwrap()
    }

    /// Returns the messages of an event stream.
    pub(crate) fn messages(&self) -> Vec<Value> {
        assert!(self.head.contains("text/event-stream"), "{}\n{}", self.head, self.text());
        self.text().split("\n\n").filter_map(Event::parse).filter_map(|event| event.message).collect()
    }

    pub(crate) fn error_code(&self) -> i64 {
        self.message()["error"]["code"].as_i64().unwrap_or_default()
    }

    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Path of the endpoint.
const MCP: &str = "/mcp";

/// A minute of virtual time.
const STEPS_MAX: usize = 60_000;

/// A legacy session, as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: Option<String>,
    pub(crate) revision: String,
}

impl Site {
    /// Starts a session of a client that can answer all requests from the server.
    pub(crate) async fn initialize(&self, revision: &str) -> Session {
        self.initialize_with(revision, &json!({"elicitation": {}, "sampling": {}, "roots": {}})).await
    }

    pub(crate) async fn initialize_with(&self, revision: &str, capabilities: &Value) -> Session {
        let response = self.send(&Session::initialize(revision, capabilities)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let revision = response.message()["result"]["protocolVersion"].as_str().unwrap().to_owned();
        let session = Session { id: response.field("mcp-session-id").map(str::to_owned), revision };
        let initialized = session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(self.send(&initialized).await.status, 202);
        session
    }
}

impl Session {
    pub(crate) fn initialize(revision: &str, capabilities: &Value) -> Message {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        Message::post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    }

    fn identify(&self, mut message: Message) -> Message {
        if let Some(id) = &self.id {
            message = message.with_field("Mcp-Session-Id", id);
        }
        if *self.revision >= *"2025-06-18" {
            message = message.with_field("MCP-Protocol-Version", &self.revision);
        }
        message
    }

    /// Returns any message in this session.
    pub(crate) fn post(&self, message: &Value) -> Message {
        self.identify(Message::post(message))
    }

    pub(crate) fn request(&self, id: impl Into<Value>, method: &str, params: &Value) -> Message {
        self.post(&request(id, method, params))
    }

    pub(crate) fn respond(&self, id: &Value, result: &Value) -> Message {
        self.post(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// Returns the request for the stream of messages outside of responses.
    pub(crate) fn get(&self) -> Message {
        self.identify(Message::without_content("GET"))
    }

    pub(crate) fn delete(&self) -> Message {
        self.identify(Message::without_content("DELETE"))
    }

    /// Returns the result of a request.
    pub(crate) async fn call(&self, site: &Site, method: &str, params: Value) -> Value {
        let response = site.send(&self.request(1, method, &params)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let mut message = response.message();
        assert!(message["error"].is_null(), "{message}");
        message["result"].take()
    }
}

/// Returns a request as JSON.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}
