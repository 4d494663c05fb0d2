//! The MCP server behind the endpoint.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use serde_json::json;
use thruway_mcp_sdk::schema::{ElicitRequestFormParams, PrimitiveSchemaDefinition, Tool};
use thruway_mcp_sdk::{Context as CallContext, HandlerError, McpEndpoint, McpServer};
use thruway_server::{
    Answer, BoxError, Content, ContentStream, FieldLinesBuf, Handler, Piece, Request, Response, StatusCode,
};

/// An MCP server over HTTP that records the headers of its requests.
pub(super) struct Recorder {
    pub(super) endpoint: McpEndpoint,
    pub(super) heads: Arc<Mutex<Vec<String>>>,
    /// The token that the server refuses.
    pub(super) refused_token: Arc<Mutex<Option<String>>>,
}

/// Returns the server with its tools.
pub(super) fn server() -> McpServer {
    McpServer::new("tools", "1.0")
        .tool(Tool::new("hello"), || "hello")
        .tool(Tool::new("large"), || "x".repeat(300_000))
        .tool(Tool::new("fail"), || Err::<&str, _>(HandlerError::failed("no file")))
        .tool(Tool::new("ask"), ask)
        .tool(Tool::new("redirect"), || "")
        .tool(Tool::new("truncated"), || "")
        .tool(Tool::new("pieces"), || "")
        .tool(Tool::new("broken"), || "")
        .tool(Tool::new("secret"), || "hidden")
}

/// Asks two questions in two rounds.
async fn ask(context: CallContext) -> Result<String, HandlerError> {
    let form = || {
        let name = PrimitiveSchemaDefinition::string();
        ElicitRequestFormParams::new("Who are you?").with_required_field("name", name)
    };
    let first = context.elicit_form("first", form()).await?;
    let second = context.elicit_form("second", form()).await?;
    Ok(format!("{} and {}", first.text("name"), second.text("name")))
}

impl Handler for Recorder {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let lines = request.field_lines().iter().map(|line| format!("{}: {}\n", line.name, line.value));
        self.heads.lock().unwrap().push(format!("{}\n{}", request.path(), lines.collect::<String>()));
        let token = request.field("Authorization").map(|token| token.to_string());
        if token.is_some() && token == *self.refused_token.lock().unwrap() {
            let challenge = Response::text("").with_field("WWW-Authenticate", "Bearer");
            return Answer::Now(challenge.with_status(StatusCode::UNAUTHORIZED));
        }
        match request.field("Mcp-Name").map(|tool| tool.as_bytes()) {
            Some(b"redirect") => Answer::Now(redirect()),
            Some(b"truncated") => Answer::Now(truncated()),
            Some(b"pieces") => pieces(request),
            Some(b"broken") => broken(request),
            _ => self.endpoint.handle(request).map(|response| response.with_field("X-Other", "x-other")),
        }
    }
}

/// Returns a JSON-RPC response that tries to redirect the client.
fn redirect() -> Response {
    let response = Response::json(&json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}}));
    response.with_status(StatusCode::TEMPORARY_REDIRECT).with_field("Location", "http://other.example/")
}

/// Returns a response that ends in the middle of its body.
fn truncated() -> Response {
    let lines = FieldLinesBuf::from_static("Content-Type: application/json\r\n");
    Response::ok(lines, Content::from_content_stream(Truncated(false)))
}

/// A body that fails after its first bytes. Contains `true` after the first bytes.
struct Truncated(bool);

impl ContentStream for Truncated {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let has_begun = std::mem::replace(&mut self.0, true);
        Poll::Ready(Some(if has_begun { Err("broken".into()) } else { Ok(Piece::Data("{\"id\":7,".into())) }))
    }
}

/// Returns the response that the arguments describe. Replaces `ID` by the id of the request.
fn broken(request: &mut Request<'_>) -> Answer {
    let mut request = request.take_owned();
    Answer::later(async move {
        let content = request.content().collect(1 << 20).await.unwrap();
        let call: serde_json::Value = serde_json::from_slice(&content).unwrap();
        let arguments = &call["params"]["arguments"];
        let body = arguments["body"].as_str().unwrap().replace("ID", &call["id"].to_string());
        let status = u16::try_from(arguments["status"].as_u64().unwrap()).unwrap();
        let media_type = arguments["mediaType"].as_str().unwrap();
        let response = Response::ok(FieldLinesBuf::default(), body).with_field("Content-Type", media_type);
        response.with_status(StatusCode::new(status).unwrap())
    })
}

/// Returns a state in small pieces, and accepts only a retry with this state.
fn pieces(request: &mut Request<'_>) -> Answer {
    let mut request = request.take_owned();
    Answer::later(async move {
        let content = request.content().collect(1 << 20).await.unwrap();
        let call: serde_json::Value = serde_json::from_slice(&content).unwrap();
        let result = match call["params"]["requestState"].as_str() {
            None => json!({"resultType": "input_required", "requestState": STATE}),
            Some(STATE) => {
                json!({"resultType": "complete", "content": [{"type": "text", "text": "continued"}]})
            }
            Some(other) => panic!("unexpected state {other}"),
        };
        let message = json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string();
        let is_json = call["params"]["arguments"]["form"] == "json";
        let (media_type, body) = if is_json {
            ("application/json", message)
        } else {
            ("text/event-stream", format!(": comment\n\nevent: message\ndata: {message}\n\n"))
        };
        let body = Content::from_content_stream(Pieces(body.into_bytes(), false));
        Response::ok(FieldLinesBuf::default(), body).with_field("Content-Type", media_type)
    })
}

/// A body that arrives byte by byte. Contains `true` if the next byte must wait.
struct Pieces(Vec<u8>, bool);

impl ContentStream for Pieces {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        self.1 = !self.1;
        if self.1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let byte = self.0.remove(0);
        Poll::Ready(Some(Ok(Piece::Data(vec![byte].into()))))
    }
}

/// A state with characters that need escape sequences.
const STATE: &str = "a \"state\" \\ \u{e9}\n";
