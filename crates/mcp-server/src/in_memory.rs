//! A client in the same process as the server. Tests use this client to call a server without a network
//! port.
//!
//! The server handles the messages exactly as over standard input and output, but the pipe is in memory.

use std::collections::VecDeque;
use std::fmt;

use serde_json::{Map, Value, json};
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{ClientCapabilities, Implementation, methods};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// A client of a server in the same process, for tests. A test can also send invalid messages with this
/// client. [`TestClient`](crate::testing::TestClient) converts results to types.
///
/// The client uses the modern era until [`initialize`](Self::initialize) begins a session of the legacy
/// era.
///
/// ```
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Greet { name: String }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), thruway_mcp_server::json_rpc::Error> {
/// use serde_json::json;
/// use thruway_mcp_server::{McpServer, schema::Tool};
///
/// let server = McpServer::new("greeter", "1.0.0")
///     .tool(Tool::new("greet"), |Greet { name }: Greet| format!("Hello, {name}!"));
///
/// let mut client = server.connect();
/// let result = client.request("tools/call", json!({"name": "greet", "arguments": {"name": "Ada"}})).await?;
/// assert_eq!(result["content"][0]["text"], "Hello, Ada!");
/// # Ok(()) }
/// ```
pub struct LocalClient {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    /// The received part of the current line.
    line: Vec<u8>,
    /// Messages that arrived while `request` waited for its answer. `receive` returns them later.
    aside: VecDeque<Value>,
    last_id: i64,
    is_modern: bool,
    capabilities: Value,
    answer: Option<Box<Answer>>,
}

/// A function that answers questions of the server: requests for elicitation, sampling or roots. The function
/// gets the method and the parameters, and returns the result.
type Answer = dyn FnMut(&str, &Value) -> Value + Send;

impl LocalClient {
    /// Returns a client that uses one end of a pipe. The server uses the other end.
    pub(crate) fn on_pipe(pipe: DuplexStream) -> Self {
        let (output, input) = tokio::io::split(pipe);
        Self {
            input,
            output: BufReader::new(output),
            line: Vec::new(),
            aside: VecDeque::new(),
            last_id: 0,
            is_modern: true,
            capabilities: json!({}),
            answer: None,
        }
    }

    /// Declares the capabilities of the client. By default, the client declares no capabilities.
    ///
    /// # Panics
    /// Never panics in practice, because capabilities can always be written as JSON.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: &ClientCapabilities) -> Self {
        self.capabilities = serde_json::to_value(capabilities).expect("capabilities can be written as JSON");
        self
    }

    /// Sets the function that answers questions of the server during a [`request`](Self::request), in both
    /// eras. Questions are requests for elicitation, sampling or roots. `answer` gets the method (such as
    /// `elicitation/create`) and the parameters of a question, and returns the result.
    #[must_use]
    pub fn with_answers(mut self, answer: impl FnMut(&str, &Value) -> Value + Send + 'static) -> Self {
        self.answer = Some(Box::new(answer));
        self
    }

    /// Begins a session of the legacy era, and returns the result of `initialize`.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn initialize(&mut self, revision: Revision) -> Result<Value, Error> {
        self.is_modern = false;
        let params = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": self.capabilities,
            "clientInfo": Implementation::new("local-client", env!("CARGO_PKG_VERSION")),
        });
        let result = self.request(methods::INITIALIZE, params).await?;
        self.notify(methods::NOTIFICATIONS_INITIALIZED, json!({})).await;
        Ok(result)
    }

    /// Sends a request and returns its result. Messages that arrive before the answer wait in a queue until
    /// [`receive`](Self::receive) returns them. Requests of the server wait in this queue too, if
    /// [`with_answers`](Self::with_answers) has set no function for them.
    ///
    /// In the modern era, the client adds the required members of `_meta`. If the server answers with a
    /// question, and [`with_answers`](Self::with_answers) has set no function, this method returns the result
    /// with the question.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error. If the server closes the connection, returns
    /// an internal error.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        let mut params = self.complete(params);
        loop {
            let result = self.request_once(method, &params).await?;
            match &mut self.answer {
                Some(answer) if result["resultType"] == "input_required" => {
                    bring(&mut params, &result, answer);
                }
                _ => return Ok(result),
            }
        }
    }

    async fn request_once(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            let Some(mut message) = self.receive_new().await else {
                return Err(Error::internal("the server has closed the connection"));
            };
            match (&mut self.answer, message["method"].as_str()) {
                (Some(answer), Some(asked)) if message.get("id").is_some() => {
                    let result = answer(asked, &message["params"]);
                    self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).await;
                }
                (_, None) if message["id"] == id => return outcome(&mut message),
                _ => self.aside.push_back(message),
            }
        }
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends any message. Waits while the pipe to the server is full. The pipe can become full because the
    /// server stops reading if the client does not [receive](Self::receive) the server's messages.
    pub async fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    /// Sends any bytes.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        // If the server has closed the connection, the next call of `receive` returns `None`.
        let _ = self.input.write_all(bytes).await;
    }

    /// Closes the input of the server. The server still answers earlier requests.
    pub async fn finish(&mut self) {
        let _ = self.input.shutdown().await;
    }

    /// Returns the next message that is not the answer to a [`request`](Self::request). Returns `None`
    /// after the server has closed the connection.
    ///
    /// # Panics
    /// Panics if the server sent a message that is not JSON.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn receive(&mut self) -> Option<Value> {
        match self.aside.pop_front() {
            Some(message) => Some(message),
            None => self.receive_new().await,
        }
    }

    async fn receive_new(&mut self) -> Option<Value> {
        // Reading from the pipe cannot fail.
        let read = self.output.read_until(b'\n', &mut self.line).await;
        if !read.is_ok_and(|read| read > 0) && self.line.is_empty() {
            return None;
        }
        let message = serde_json::from_slice(&self.line).expect("the server must send JSON");
        self.line.clear();
        Some(message)
    }

    /// Opens a subscription of the modern era, and waits until the server has accepted it. The subscription lasts
    /// until the client is dropped.
    ///
    /// # Errors
    /// Returns an error if the server refuses the subscription or closes the connection.
    pub(crate) async fn listen(&mut self, notifications: &Value) -> Result<(), Error> {
        self.last_id += 1;
        let id = self.last_id;
        let params = self.complete(json!({"notifications": notifications}));
        let method = methods::SUBSCRIPTIONS_LISTEN;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        while let Some(mut message) = self.receive_new().await {
            if message["method"] == methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED
                && message["params"]["_meta"][meta_keys::SUBSCRIPTION_ID] == id
            {
                return Ok(());
            }
            if message.get("method").is_none() && message["id"] == id {
                return outcome(&mut message).map(|_| ());
            }
            self.aside.push_back(message);
        }
        Err(Error::internal("the server has closed the connection"))
    }

    /// Returns the messages that arrived while `request` waited for its answer.
    pub(crate) fn take_received(&mut self) -> VecDeque<Value> {
        std::mem::take(&mut self.aside)
    }

    /// Adds the members of `_meta` that every request of the modern era needs.
    fn complete(&self, mut params: Value) -> Value {
        if params.is_null() {
            params = json!({});
        }
        if self.is_modern
            && let Some(params) = params.as_object_mut()
        {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                let version = meta.entry(meta_keys::PROTOCOL_VERSION);
                version.or_insert_with(|| Revision::LATEST.as_str().into());
                let capabilities = meta.entry(meta_keys::CLIENT_CAPABILITIES);
                capabilities.or_insert_with(|| self.capabilities.clone());
            }
        }
        params
    }
}

/// Calls `answer` for each of `questions`. Adds the answers to `params`, the parameters of the repeated
/// request.
fn bring(params: &mut Value, questions: &Value, answer: &mut Answer) {
    let mut responses = Map::new();
    for (key, question) in questions["inputRequests"].as_object().into_iter().flatten() {
        let method = question["method"].as_str().unwrap_or_default();
        responses.insert(key.clone(), answer(method, &question["params"]));
    }
    params["inputResponses"] = Value::Object(responses);
    if let Some(state) = questions.get("requestState") {
        params["requestState"] = state.clone();
    }
}

fn outcome(response: &mut Value) -> Result<Value, Error> {
    if let Some(result) = response.get_mut("result") {
        return Ok(result.take());
    }
    let malformed = |_| Error::new(ErrorCode::INTERNAL_ERROR, "the server's error is malformed");
    Err(serde_json::from_value(response["error"].take()).unwrap_or_else(malformed))
}

impl fmt::Debug for LocalClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalClient").field("is_modern", &self.is_modern).finish_non_exhaustive()
    }
}
