//! A client for tests, with typed results.

use std::collections::VecDeque;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{
    CallToolResult, CompleteResult, ContentBlock, CreateMessageRequestParams, CreateMessageResult,
    ElicitAction, ElicitRequestFormParams, ElicitRequestURLParams, GetPromptResult, Prompt,
    ReadResourceResult, Resource, ResourceTemplate, Tool, methods,
};
use thruway_mcp::{Era, Revision};

use super::answers::{Answers, FormAnswer};
use crate::in_memory::LocalClient;
use crate::server::McpServer;

/// A client that calls a server in the same process: see the [module](super) for an example. The first
/// request connects the client, so functions that answer questions must be set before.
///
/// Dropping the client ends its session, cancels its requests and ends its subscriptions.
pub struct TestClient {
    server: McpServer,
    revision: Revision,
    answers: Answers,
    /// `None` until the first request.
    connection: Option<LocalClient>,
    last_token: u64,
    notifications: VecDeque<ReceivedNotification>,
}

/// A notification that the server has sent.
#[derive(Clone, PartialEq, Debug)]
pub struct ReceivedNotification {
    /// The method, such as `notifications/tools/list_changed`.
    pub method: String,
    /// The parameters, without the metadata that differs between revisions.
    pub params: Value,
}

/// The reason why a request of a [`TestClient`] has no result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TestError {
    /// The tool has failed, or has rejected the arguments. Contains the text for the model.
    Tool(String),
    /// The server has answered with an error of the protocol.
    Protocol(Error),
    /// The result does not have the type that the test expects. Contains the reason and the result.
    Result(String),
    /// The arguments of the test cannot be written as JSON. Contains the reason.
    Arguments(String),
}

impl TestClient {
    /// Returns a client of `server` that uses the latest revision of the protocol.
    pub fn new(server: &McpServer) -> Self {
        Self {
            server: server.clone(),
            revision: Revision::LATEST,
            answers: Answers::default(),
            connection: None,
            last_token: 0,
            notifications: VecDeque::new(),
        }
    }

    /// Sets the revision of the protocol. Default: the latest revision. The client begins a session if the
    /// revision has sessions.
    #[must_use]
    pub fn with_revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// Answers the forms of the server (elicitation) with `answer`. Without this function, the client does
    /// not support forms.
    #[must_use]
    pub fn on_elicit(
        mut self,
        answer: impl FnMut(&ElicitRequestFormParams) -> FormAnswer + Send + 'static,
    ) -> Self {
        self.answers.form = Some(Box::new(answer));
        self
    }

    /// Answers requests to visit a web page (elicitation by URL) with `answer`. Without this function, the
    /// client does not support such requests.
    #[must_use]
    pub fn on_elicit_url(
        mut self,
        answer: impl FnMut(&ElicitRequestURLParams) -> ElicitAction + Send + 'static,
    ) -> Self {
        self.answers.page = Some(Box::new(answer));
        self
    }

    /// Answers requests to the language model (sampling) with `answer`, which can return a text. Without this
    /// function, the client does not support sampling.
    #[must_use]
    pub fn on_sample<R: Into<CreateMessageResult>>(
        mut self,
        mut answer: impl FnMut(&CreateMessageRequestParams) -> R + Send + 'static,
    ) -> Self {
        self.answers.sample = Some(Box::new(move |request| answer(request).into()));
        self
    }

    /// Sets the URIs of the client's working directories (roots). Without this call, the client does not
    /// support roots.
    #[must_use]
    pub fn with_roots<T: Into<String>>(mut self, uris: impl IntoIterator<Item = T>) -> Self {
        self.answers.roots = Some(uris.into_iter().map(Into::into).collect());
        self
    }

    /// Calls a tool, and converts its result to `T`: the structured content, or the text if the tool returns
    /// no structured content. A text becomes a `String`, or any type that the text contains as JSON.
    ///
    /// # Errors
    /// Returns [`TestError::Tool`] if the tool fails or rejects the arguments, and other errors if the tool
    /// does not exist or the result does not have the type `T`.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        tool: &str,
        arguments: impl Serialize,
    ) -> Result<T, TestError> {
        let result = self.call_tool(tool, arguments).await?;
        if result.is_error == Some(true) {
            return Err(TestError::Tool(text_of(&result.content)));
        }
        output(&result)
    }

    /// Calls a tool, and returns its whole result. A failed tool returns a result with `is_error`.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error, for example because the tool does not exist.
    pub async fn call_tool(
        &mut self,
        tool: &str,
        arguments: impl Serialize,
    ) -> Result<CallToolResult, TestError> {
        let arguments = arguments_of(arguments)?;
        self.request_as(methods::TOOLS_CALL, json!({"name": tool, "arguments": arguments})).await
    }

    /// Returns the messages of a prompt. Arguments that are not texts are sent as their JSON text, because
    /// the protocol has only texts.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn prompt(
        &mut self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<GetPromptResult, TestError> {
        let mut arguments = arguments_of(arguments)?;
        for value in arguments.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if !value.is_string() && !value.is_null() {
                *value = value.to_string().into();
            }
        }
        self.request_as(methods::PROMPTS_GET, json!({"name": name, "arguments": arguments})).await
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error, for example because the resource does not exist.
    pub async fn resource(&mut self, uri: &str) -> Result<ReadResourceResult, TestError> {
        self.request_as(methods::RESOURCES_READ, json!({"uri": uri})).await
    }

    /// Reads a resource with one text, and converts it to `T`: a `String`, or any type that the text contains
    /// as JSON.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error, or if the content does not have the type `T`.
    pub async fn read<T: DeserializeOwned>(&mut self, uri: &str) -> Result<T, TestError> {
        let result = self.request(methods::RESOURCES_READ, json!({"uri": uri})).await?;
        match (result["contents"].as_array().map(Vec::len), result["contents"][0]["text"].as_str()) {
            (Some(1), Some(text)) => of_text(text),
            _ => Err(TestError::Result(format!("not one text: {result}"))),
        }
    }

    /// Returns the suggestions for an argument of a prompt, after the user has typed `value`.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn complete_prompt(
        &mut self,
        name: &str,
        argument: &str,
        value: &str,
    ) -> Result<Vec<String>, TestError> {
        self.complete(&json!({"type": "ref/prompt", "name": name}), argument, value).await
    }

    /// Returns the suggestions for a variable of a resource template, after the user has typed `value`.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn complete_resource(
        &mut self,
        uri_template: &str,
        variable: &str,
        value: &str,
    ) -> Result<Vec<String>, TestError> {
        self.complete(&json!({"type": "ref/resource", "uri": uri_template}), variable, value).await
    }

    async fn complete(&mut self, of: &Value, argument: &str, value: &str) -> Result<Vec<String>, TestError> {
        let params = json!({"ref": of, "argument": {"name": argument, "value": value}});
        let result: CompleteResult = self.request_as(methods::COMPLETION_COMPLETE, params).await?;
        Ok(result.completion.values)
    }

    /// Returns all tools, in the order of the list.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn tools(&mut self) -> Result<Vec<Tool>, TestError> {
        self.list(methods::TOOLS_LIST, "tools").await
    }

    /// Returns all prompts, in the order of the list.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn prompts(&mut self) -> Result<Vec<Prompt>, TestError> {
        self.list(methods::PROMPTS_LIST, "prompts").await
    }

    /// Returns all resources, in the order of the list.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn resources(&mut self) -> Result<Vec<Resource>, TestError> {
        self.list(methods::RESOURCES_LIST, "resources").await
    }

    /// Returns all resource templates, in the order of the list.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn resource_templates(&mut self) -> Result<Vec<ResourceTemplate>, TestError> {
        self.list(methods::RESOURCES_TEMPLATES_LIST, "resourceTemplates").await
    }

    /// Returns all pages of a list.
    async fn list<T: DeserializeOwned>(&mut self, method: &str, member: &str) -> Result<Vec<T>, TestError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
            let mut page = self.request(method, params).await?;
            all.extend(typed::<Vec<T>>(&page[member])?);
            match page["nextCursor"].take() {
                Value::Null => return Ok(all),
                next => cursor = Some(next),
            }
        }
    }

    /// Subscribes to changes of the resource at `uri`.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn subscribe(&mut self, uri: &str) -> Result<(), TestError> {
        if self.revision.era() == Era::Legacy {
            return self.request(methods::RESOURCES_SUBSCRIBE, json!({"uri": uri})).await.map(|_| ());
        }
        Ok(self.connect().await?.listen(&json!({"resourceSubscriptions": [uri]})).await?)
    }

    /// Returns the notifications that the client has received since the last call, in the order of their
    /// arrival. A call of a tool returns after the notifications that its handler has sent. The client
    /// receives progress, log messages of all levels, changes of lists, and changes of resources after
    /// [`subscribe`](Self::subscribe).
    pub fn notifications(&mut self) -> Vec<ReceivedNotification> {
        self.collect();
        self.notifications.drain(..).collect()
    }

    /// Returns the next notification, and waits for it if there is none. Returns `None` if the server has
    /// closed the connection.
    ///
    /// # Errors
    /// Returns an error if the client cannot connect.
    pub async fn next_notification(&mut self) -> Result<Option<ReceivedNotification>, TestError> {
        loop {
            self.collect();
            if let Some(notification) = self.notifications.pop_front() {
                return Ok(Some(notification));
            }
            let Some(message) = self.connect().await?.receive().await else { return Ok(None) };
            self.notifications.extend(notification(message));
        }
    }

    /// Sends any request, and returns its result as JSON. Answers questions of the server.
    ///
    /// # Errors
    /// Returns an error if the server answers with an error.
    pub async fn request(&mut self, method: &str, mut params: Value) -> Result<Value, TestError> {
        self.last_token += 1;
        let mut meta = Map::new();
        meta.insert(meta_keys::PROGRESS_TOKEN.to_owned(), self.last_token.into());
        if self.revision.era() == Era::Modern {
            meta.insert(meta_keys::LOG_LEVEL.to_owned(), LOG_LEVEL.into());
        }
        if let Some(params) = params.as_object_mut() {
            params.entry("_meta").or_insert(Value::Object(meta));
        }
        Ok(self.connect().await?.request(method, params).await?)
    }

    async fn request_as<T: DeserializeOwned>(&mut self, method: &str, params: Value) -> Result<T, TestError> {
        typed(&self.request(method, params).await?)
    }

    /// Returns the connection, to send and receive any messages. Connects first if necessary.
    ///
    /// # Errors
    /// Returns an error if the server refuses the session.
    pub async fn connect(&mut self) -> Result<&mut LocalClient, TestError> {
        if let Some(connection) = self.connection.take() {
            return Ok(self.connection.insert(connection));
        }
        let mut answers = std::mem::take(&mut self.answers);
        let connection = self.server.connect().with_capabilities(&answers.capabilities());
        let mut connection = connection.with_answers(move |method, params| answers.answer(method, params));
        if self.revision.era() == Era::Legacy {
            connection.initialize(self.revision).await?;
            // A server without log messages answers with an error, which has no effect on other requests.
            let _ = connection.request(methods::LOGGING_SET_LEVEL, json!({"level": LOG_LEVEL})).await;
        } else {
            let lists = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
            connection.listen(&lists.map(|list| (list, true)).into_iter().collect()).await?;
        }
        Ok(self.connection.insert(connection))
    }

    /// Moves the notifications that have arrived from the connection to the client.
    fn collect(&mut self) {
        let received = self.connection.iter_mut().flat_map(LocalClient::take_received);
        self.notifications.extend(received.filter_map(notification));
    }
}

/// Returns the message as a notification, if it is one.
fn notification(mut message: Value) -> Option<ReceivedNotification> {
    let method = message["method"].as_str()?.to_owned();
    let mut params = message["params"].take();
    if let Some(params) = params.as_object_mut()
        && let Some(Value::Object(meta)) = params.get_mut("_meta")
    {
        meta.remove(meta_keys::SUBSCRIPTION_ID);
        if meta.is_empty() {
            params.remove("_meta");
        }
    }
    let is_request = message.get("id").is_some();
    (!is_request).then_some(ReceivedNotification { method, params })
}

fn arguments_of(arguments: impl Serialize) -> Result<Value, TestError> {
    let arguments =
        serde_json::to_value(arguments).map_err(|error| TestError::Arguments(error.to_string()))?;
    // `()` stands for no arguments.
    Ok(if arguments.is_null() { json!({}) } else { arguments })
}

/// Structured content of a result that is not an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped<T> {
    result: T,
}

/// Converts the result of a tool.
fn output<T: DeserializeOwned>(result: &CallToolResult) -> Result<T, TestError> {
    let Some(structured) = &result.structured_content else {
        return match &result.content[..] {
            [] => typed(&Value::Null),
            content => of_text(&text_of(content)),
        };
    };
    let json = structured.as_str();
    match serde_json::from_str(json) {
        Ok(output) => Ok(output),
        Err(error) => match serde_json::from_str::<Wrapped<T>>(json) {
            Ok(wrapped) => Ok(wrapped.result),
            Err(_) => Err(TestError::Result(format!("{error}: {json}"))),
        },
    }
}

/// Converts a text: to a `String`, or to the type that the text contains as JSON.
fn of_text<T: DeserializeOwned>(text: &str) -> Result<T, TestError> {
    if let Ok(whole) = T::deserialize(Value::from(text)) {
        return Ok(whole);
    }
    serde_json::from_str(text).map_err(|error| TestError::Result(format!("{error}: {text}")))
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, TestError> {
    T::deserialize(value).map_err(|error| TestError::Result(format!("{error}: {value}")))
}

/// Returns the texts of some content, each on its own line.
fn text_of(content: &[ContentBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(&*text.text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl From<Error> for TestError {
    fn from(error: Error) -> Self {
        Self::Protocol(error)
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(text) => write!(f, "the tool has failed: {text}"),
            Self::Protocol(error) => write!(f, "the server has answered with an error: {error}"),
            Self::Result(reason) => write!(f, "the result does not have the expected type: {reason}"),
            Self::Arguments(reason) => write!(f, "cannot write the arguments as JSON: {reason}"),
        }
    }
}

impl std::error::Error for TestError {}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// The lowest level of log messages that the client wants.
const LOG_LEVEL: &str = "debug";
