//! Parses messages to find the id of a response, and to find out if the response is successful.
//!
//! Most responses begin with their id and `result`, and the parser reads only this beginning. In the rest
//! of such a response, the parser only searches for signs of a failed tool call. The parser reads all other
//! responses completely.

use memchr::memmem;
use serde::Deserialize;
use thruway_mcp::json_rpc::{self, Id, Message};

use crate::failure::{Detail, Failure, FailureKind};

/// The relevant part of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// The response to a request.
    Response {
        /// The id of the response. `None` if the response has no id, or an id that this program never uses.
        id: Option<u64>,
        /// Success or failure.
        outcome: Result<(), Failure>,
    },
    /// A notification or a request from the server.
    Other,
    /// The text is not a JSON-RPC message.
    NotJsonRpc,
}

/// Parses a message.
pub(crate) fn read(bytes: &[u8]) -> Reading {
    match read_beginning(bytes) {
        Some(id) if has_end(bytes) && !may_be_tool_error(bytes) => {
            Reading::Response { id: Some(id), outcome: Ok(()) }
        }
        _ => parse(bytes),
    }
}

/// Returns the id if the message begins with the JSON-RPC version, an id, and a `result` object.
fn read_beginning(bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes;
    let mut id = None;
    let mut has_version = false;
    skip(&mut rest, b"{")?;
    loop {
        if skip(&mut rest, b"\"jsonrpc\"").is_some() {
            skip(&mut rest, b":")?;
            skip(&mut rest, b"\"2.0\"")?;
            has_version = true;
        } else if skip(&mut rest, b"\"id\"").is_some() {
            skip(&mut rest, b":")?;
            let is_first = id.replace(skip_number(&mut rest)?).is_none();
            is_first.then_some(())?;
        } else {
            skip(&mut rest, b"\"result\"")?;
            skip(&mut rest, b":")?;
            skip(&mut rest, b"{")?;
            return id.filter(|_| has_version);
        }
        skip(&mut rest, b",")?;
    }
}

/// Removes `token` and the whitespace before `token` from the start of `rest`. Returns `None` if `rest`
/// does not begin with `token`.
fn skip(rest: &mut &[u8], token: &[u8]) -> Option<()> {
    *rest = rest.trim_ascii_start().strip_prefix(token)?;
    Some(())
}

fn skip_number(rest: &mut &[u8]) -> Option<u64> {
    *rest = rest.trim_ascii_start();
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, after) = rest.split_at(length);
    *rest = after;
    // A number with more than 19 digits may not fit into a `u64`. This program never uses such an id.
    (1..=19)
        .contains(&length)
        .then(|| digits.iter().fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0')))
}

fn has_end(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().ends_with(b"}")
}

/// Returns `true` if the message contains `"isError": true`. Text inside a JSON string cannot match,
/// because quotes in a string are escaped.
fn may_be_tool_error(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, IS_ERROR).any(|at| {
        let mut rest = &bytes[at + IS_ERROR.len()..];
        skip(&mut rest, b":").and_then(|()| skip(&mut rest, b"t")).is_some()
    })
}

#[cold]
fn parse(bytes: &[u8]) -> Reading {
    let Ok(message) = json_rpc::parse(bytes) else { return Reading::NotJsonRpc };
    let Message::Response(response) = message else { return Reading::Other };
    let id = match response.id {
        Some(Id::Integer(id)) => u64::try_from(id).ok(),
        _ => None,
    };
    let outcome = match response.outcome {
        Err(error) => Err(Failure { kind: FailureKind::RpcError, detail: Detail::Code(error.code.0) }),
        Ok(result) if !result.get().starts_with('{') => return Reading::NotJsonRpc,
        Ok(result) => match serde_json::from_str(result.get()) {
            Ok(ToolResult { is_error: true }) => Err(Failure::of(FailureKind::ToolError)),
            _ => Ok(()),
        },
    };
    Reading::Response { id, outcome }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    #[serde(default)]
    is_error: bool,
}

const IS_ERROR: &[u8] = b"\"isError\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> (Option<u64>, Option<FailureKind>) {
        match read(text.as_bytes()) {
            Reading::Response { id, outcome } => (id, outcome.err().map(|failure| failure.kind)),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn responses_are_read_with_any_member_order_and_whitespace() {
        for text in [
            r#"{"jsonrpc":"2.0","id":17,"result":{}}"#,
            r#" { "id" : 17 , "jsonrpc" : "2.0" , "result" : { "a": [] } } "#,
            r#"{"result":{"content":[]},"jsonrpc":"2.0","id":17}"#,
            r#"{"jsonrpc":"2.0","more":1,"id":17,"result":{"isError":false}}"#,
            r#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"text":"\"isError\": true"}]}}"#,
            r#"{"jsonrpc":"2.0","id":17,"result":{"structuredContent":{"isError":true}}}"#,
        ] {
            assert_eq!(outcome(text), (Some(17), None), "{text}");
        }
    }

    #[test]
    fn tool_errors_and_rpc_errors_are_distinguished() {
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":true}}"#,
            r#"{"jsonrpc": "2.0", "id": 3, "result": {"isError" : true, "content": []}}"#,
        ] {
            assert_eq!(outcome(text), (Some(3), Some(FailureKind::ToolError)), "{text}");
        }
        let error = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no"}}"#;
        assert_eq!(outcome(error), (Some(3), Some(FailureKind::RpcError)));
        let anonymous = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
        assert_eq!(outcome(anonymous), (None, Some(FailureKind::RpcError)));
        assert_eq!(outcome(r#"{"jsonrpc":"2.0","id":"3","result":{}}"#), (None, None));
        assert_eq!(outcome(r#"{"jsonrpc":"2.0","id":-3,"result":{}}"#), (None, None));
    }

    #[test]
    fn other_messages_and_invalid_messages_are_no_responses() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        ] {
            assert_eq!(read(text.as_bytes()), Reading::Other, "{text}");
        }
        for text in [
            "",
            "{",
            "listening on port 80",
            r#"{"jsonrpc":"2.0","id":1,"result":"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        ] {
            assert_eq!(read(text.as_bytes()), Reading::NotJsonRpc, "{text}");
        }
    }
}
