//! The two tools of an endpoint with tool search: their definitions and their arguments.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Request;
use thruway_mcp::members::{append_member, append_members};
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;

use super::audience::Audience;

/// The tool that finds tools.
pub(super) const FIND_TOOL: &str = "find_tool";

/// The tool that calls another tool.
pub(super) const CALL_TOOL: &str = "call_tool";

/// The names of both tools. Members cannot have tools with these public names.
pub(super) const NAMES: &[&str] = &[CALL_TOOL, FIND_TOOL];

/// Returns the definitions of both tools as JSON text, separated by a comma.
pub(super) fn definitions(audience: Audience, results_max: usize) -> String {
    let mut find = json!({
        "name": FIND_TOOL,
        "title": "Find tools",
        "description": "Searches the tools of this endpoint by keywords. Returns the name, the description and the \
                        input schema of each match, best match first. The list of tools contains only a part of \
                        the tools: search here if the list lacks a tool for the task. Then call a found tool with \
                        `call_tool`.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Keywords, such as the action and the object: `create issue`."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": results_max,
                    "default": results_max,
                    "description": "Maximum number of tools in the result."
                }
            },
            "required": ["query"]
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let mut call = json!({
        "name": CALL_TOOL,
        "title": "Call a tool",
        "description": "Calls a tool that `find_tool` has returned, and returns the result of this tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name of the tool, as returned by `find_tool`."},
                "arguments": {
                    "type": "object",
                    "description": "The arguments of the tool, according to its `inputSchema`."
                }
            },
            "required": ["name"]
        },
    });
    if audience != Audience::LegacyUnstructured {
        find["outputSchema"] = output_schema();
    }
    if audience != Audience::Modern {
        // In the modern era, the server decides whether a call becomes a task.
        call["execution"] = json!({"taskSupport": "optional"});
    }
    format!("{call},{find}")
}

fn output_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "tools": {
                "type": "array",
                "description": "The found tools, best match first.",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "description": {"type": "string"},
                        "inputSchema": {"type": "object"}
                    },
                    "required": ["name", "inputSchema"]
                }
            },
            "missingServers": {
                "type": "array",
                "description": "Servers that are not available now. The search did not include their tools.",
                "items": {"type": "string"}
            }
        },
        "required": ["tools"]
    })
}

/// Returns the parameters of the call that a call of `call_tool` asks for. Returns `None` for all other
/// requests, and for invalid arguments.
pub(super) fn inner_params(request: &Request<'_>, params: &Params<'_>) -> Option<Box<RawValue>> {
    if request.method != methods::TOOLS_CALL || params.name.as_deref() != Some(CALL_TOOL) {
        return None;
    }
    let call = CallArguments::parse(params.arguments).ok()?;
    let mut inner = vec![b'{'];
    let is_of_call = |name: &str| name != "name" && name != "arguments";
    append_members(&mut inner, request.params?, |name, _| is_of_call(name)).ok()?;
    append_member(&mut inner, "name", &serde_json::to_string(&call.name).ok()?);
    if let Some(arguments) = call.arguments {
        append_member(&mut inner, "arguments", arguments.get());
    }
    inner.push(b'}');
    RawValue::from_string(String::from_utf8(inner).ok()?).ok()
}

/// The arguments of `call_tool`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallArguments<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// The arguments of `find_tool`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindArguments<'a> {
    #[serde(borrow)]
    pub(super) query: Cow<'a, str>,
    #[serde(default)]
    limit: Option<u64>,
}

impl<'a> CallArguments<'a> {
    /// # Errors
    /// The arguments do not match the input schema. The error is a text for the model.
    pub(super) fn parse(arguments: Option<&'a RawValue>) -> Result<Self, String> {
        parse(arguments, CALL_TOOL, "expected the text `name` and the object `arguments`")
    }
}

impl<'a> FindArguments<'a> {
    /// # Errors
    /// The arguments do not match the input schema. The error is a text for the model.
    pub(super) fn parse(arguments: Option<&'a RawValue>) -> Result<Self, String> {
        parse(arguments, FIND_TOOL, "expected the text `query` and optionally the number `limit`")
    }

    /// Returns the maximum number of results, 1 to `results_max`.
    pub(super) fn limit(&self, results_max: usize) -> usize {
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        limit.clamp(1, results_max)
    }
}

fn parse<'a, T: Deserialize<'a>>(
    arguments: Option<&'a RawValue>,
    tool: &str,
    expected: &str,
) -> Result<T, String> {
    let arguments = arguments.map_or("{}", RawValue::get);
    if !arguments.starts_with('{') {
        return Err(format!("invalid arguments of {tool}: {expected}"));
    }
    serde_json::from_str(arguments)
        .map_err(|error| format!("invalid arguments of {tool}: {error}; {expected}"))
}

#[cfg(test)]
mod tests {
    use thruway_mcp::json_rpc::Id;

    use super::*;

    fn inner(params: &str) -> Option<String> {
        let raw: &RawValue = serde_json::from_str(params).unwrap();
        let request =
            Request { id: Id::Integer(1), method: Cow::Borrowed(methods::TOOLS_CALL), params: Some(raw) };
        let parsed = Params::parse(Some(raw)).unwrap();
        inner_params(&request, &parsed).map(|inner| inner.get().to_owned())
    }

    #[test]
    fn call_tool_becomes_a_call_of_the_named_tool_with_the_same_metadata() {
        assert_eq!(
            inner(
                r#"{"name":"call_tool","_meta":{"progressToken":7},"requestState":"s",
                "arguments":{"arguments":{"n":1.50e3,"name":"call_tool"},"name":"a__\u0062"}}"#
            )
            .unwrap(),
            r#"{"_meta":{"progressToken":7},"requestState":"s","name":"a__b","arguments":{"n":1.50e3,"name":"call_tool"}}"#
        );
        assert_eq!(
            inner(r#"{"name":"call_tool","task":{},"arguments":{"name":"a"}}"#).unwrap(),
            r#"{"task":{},"name":"a"}"#
        );
    }

    #[test]
    fn other_calls_and_invalid_arguments_have_no_inner_call() {
        for params in [
            r#"{"name":"a__b","arguments":{"name":"c"}}"#,
            r#"{"name":"find_tool","arguments":{"name":"c"}}"#,
            r#"{"name":"call_tool"}"#,
            r#"{"name":"call_tool","arguments":{}}"#,
            r#"{"name":"call_tool","arguments":{"name":1}}"#,
            r#"{"name":"call_tool","arguments":{"name":"a","name":"b"}}"#,
            r#"{"name":"call_tool","arguments":{"name":"a","Name":"b"}}"#,
            r#"{"name":"call_tool","arguments":["a"]}"#,
        ] {
            assert_eq!(inner(params), None, "{params}");
        }
    }

    #[test]
    fn limit_of_a_search_is_bounded() {
        for (arguments, expected) in [
            (r#"{"query":"a"}"#, 5),
            (r#"{"query":"a","limit":3}"#, 3),
            (r#"{"query":"a","limit":0}"#, 1),
            (r#"{"query":"a","limit":18446744073709551615}"#, 5),
        ] {
            let arguments: &RawValue = serde_json::from_str(arguments).unwrap();
            let Ok(arguments) = FindArguments::parse(Some(arguments)) else { panic!("invalid") };
            assert_eq!(arguments.limit(5), expected);
        }
    }
}
