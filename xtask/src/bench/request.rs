//! The requests that servers are loaded with, and what their answers must be.

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde_json::{Value, json};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum Request {
    /// `GET /plaintext`.
    Plaintext,
    /// A call of the tool `echo`, revision 2026-07-28.
    CallTool,
    /// The list of 100 tools, revision 2026-07-28.
    ListTools,
    /// A call of the tool `echo`, revision 2025-06-18, without a session.
    LegacyCallTool,
    /// `ping`, revision 2025-06-18, without a session.
    LegacyPing,
}

/// Content of every answer to `GET /plaintext`.
const PLAINTEXT: &str = "Hello, World!";

/// How many tools the servers of MCP have.
const TOOLS: usize = 100;

const MESSAGE: &str = "Benchmark test message 1";

impl Request {
    /// The octets, field lines as clients of the kind send them.
    pub(super) fn octets(self) -> Vec<u8> {
        let get = |target: &str| {
            format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/plain\r\n\r\n").into_bytes()
        };
        let (method, revision) = match self {
            Self::Plaintext => return get("/plaintext"),
            Self::CallTool => ("tools/call", MODERN),
            Self::ListTools => ("tools/list", MODERN),
            Self::LegacyCallTool => ("tools/call", LEGACY),
            Self::LegacyPing => ("ping", LEGACY),
        };
        let body = self.message(1).to_string();
        let name = if method == "tools/call" { "Mcp-Name: echo\r\n" } else { "" };
        let mirrored =
            if revision == MODERN { format!("Mcp-Method: {method}\r\n{name}") } else { String::new() };
        format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {revision}\r\n{mirrored}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// The message of MCP; that of no message is null.
    pub(super) fn message(self, id: u32) -> Value {
        match self {
            Self::Plaintext => Value::Null,
            Self::CallTool => modern(id, "tools/call", call()),
            Self::ListTools => modern(id, "tools/list", json!({})),
            Self::LegacyCallTool => message(id, "tools/call", Some(call())),
            Self::LegacyPing => message(id, "ping", None),
        }
    }

    /// What a client on a connection of its own says first, and whether that is answered.
    pub(super) fn greeting(self) -> Vec<(Value, bool)> {
        if !matches!(self, Self::LegacyCallTool | Self::LegacyPing) {
            return Vec::new();
        }
        let client = json!({"name": "bench", "version": "1.0"});
        let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client});
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        vec![(message(1, "initialize", Some(params)), true), (initialized, false)]
    }

    /// Checks status, field lines and content of an answer.
    ///
    /// # Errors
    /// It is not as the workload says.
    pub(super) fn check(self, head: &str, content: &str) -> anyhow::Result<()> {
        ensure!(head.starts_with("HTTP/1.1 200 "), "the status is not 200: {head}");
        if self == Self::Plaintext {
            ensure!(content == PLAINTEXT, "the content is {content:?}");
            ensure!(
                field(head, "Content-Type")?.starts_with("text/plain"),
                "the `Content-Type` is not `text/plain`"
            );
            field(head, "Server")?;
            field(head, "Date")?;
            return Ok(());
        }
        ensure!(
            field(head, "Content-Type")?.starts_with("application/json"),
            "the `Content-Type` is not `application/json`"
        );
        self.check_message(content)
    }

    /// Checks a message that is an answer.
    ///
    /// # Errors
    /// It is not as the workload says.
    pub(super) fn check_message(self, answer: &str) -> anyhow::Result<()> {
        let message: Value = serde_json::from_str(answer).context("the answer is not JSON")?;
        ensure!(self.is_answered_by(&message), "the answer is {answer}");
        Ok(())
    }

    fn is_answered_by(self, message: &Value) -> bool {
        // A server that only sends back what it was sent is a measure too.
        if message["method"].is_string() {
            return true;
        }
        let result = &message["result"];
        match self {
            Self::Plaintext => false,
            Self::CallTool | Self::LegacyCallTool => {
                result["structuredContent"]["echo"] == MESSAGE && result["content"][0]["type"] == "text"
            }
            Self::ListTools => result["tools"].as_array().is_some_and(|tools| tools.len() == TOOLS),
            // For a server that gives one answer to all requests.
            Self::LegacyPing => result.is_object(),
        }
    }
}

/// The value of a field of a header section.
///
/// # Errors
/// There is no such field.
pub(super) fn field<'h>(head: &'h str, name: &str) -> anyhow::Result<&'h str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let field = fields.find(|(n, _)| n.eq_ignore_ascii_case(name));
    field.map(|(_, value)| value.trim()).with_context(|| format!("there is no `{name}`"))
}

fn call() -> Value {
    json!({"name": "echo", "arguments": {"message": MESSAGE}})
}

fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message(id, method, Some(params))
}

fn message(id: u32, method: &str, params: Option<Value>) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
    if let Some(params) = params {
        message["params"] = params;
    }
    message
}

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-06-18";

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nserver: a\r\nDate: b\r\nContent-Type: text/plain\r\nContent-Length: 13";

    #[test]
    fn an_answer_as_agreed_is_accepted() {
        Request::Plaintext.check(HEAD, PLAINTEXT).unwrap();
    }

    #[test]
    fn an_answer_without_what_was_agreed_is_refused() {
        for missing in ["200", "server: a\r\n", "Date: b\r\n", "Content-Type: text/plain\r\n"] {
            assert!(Request::Plaintext.check(&HEAD.replace(missing, ""), PLAINTEXT).is_err(), "{missing:?}");
        }
        assert!(Request::Plaintext.check(HEAD, "Hello, World?").is_err());
    }

    #[test]
    fn answers_of_mcp_are_checked_by_what_they_say() {
        let head = HEAD.replace("text/plain", "application/json");
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let right =
            json!({"content": [{"type": "text", "text": "…"}], "structuredContent": {"echo": MESSAGE}});
        Request::CallTool.check(&head, &answer(right.clone())).unwrap();
        assert!(Request::CallTool.check(HEAD, &answer(right)).is_err());
        assert!(Request::CallTool.check(&head, &answer(json!({"isError": true}))).is_err());
        assert!(Request::ListTools.check(&head, &answer(json!({"tools": []}))).is_err());
        assert!(Request::CallTool.check(&head, r#"{"jsonrpc":"2.0","id":1,"error":{}}"#).is_err());
    }

    #[test]
    fn requests_say_how_long_they_are() {
        for request in [Request::CallTool, Request::ListTools, Request::LegacyCallTool, Request::LegacyPing] {
            let octets = String::from_utf8(request.octets()).unwrap();
            let (head, body) = octets.split_once("\r\n\r\n").unwrap();
            assert_eq!(field(head, "content-length").unwrap(), body.len().to_string());
        }
    }
}
