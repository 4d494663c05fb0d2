//! Chooses the MCP operations of a load from the user's options and the server's tools.

use std::fmt;

use serde_json::{Value, json};
use thruway_mcp::{Era, Revision};

use crate::probe::{FoundTool, McpServerFacts};
use crate::requests::McpOperation;

/// Kinds of MCP operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// Calls a tool with `tools/call`.
    Call,
    /// Lists the tools with `tools/list`.
    List,
    /// Sends `ping`. In the modern era of MCP, sends `server/discover` instead, because this era has no
    /// `ping`.
    Ping,
    /// Sends `server/discover`. Only the modern era of MCP has this method.
    Discover,
    /// Lists the resources with `resources/list`.
    Resources,
    /// Reads a resource with `resources/read`.
    Read,
    /// Lists the prompts with `prompts/list`.
    Prompts,
}

/// The operations of a load, as chosen by the user.
#[derive(Clone, PartialEq, Debug)]
pub struct McpOperations {
    /// The kinds with their weights: an operation of weight 2 is sent twice as often as an operation of
    /// weight 1.
    pub kinds: Vec<(OperationKind, u32)>,
    /// The name of the tool to call. Default: `echo`, or the first tool without required arguments.
    pub tool: Option<String>,
    /// The arguments of the tool, as a JSON object.
    pub arguments: Option<Value>,
    /// The URI of the resource to read.
    pub uri: Option<String>,
}

/// Reason why the operations cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidOperations {
    /// The protocol revision has no `server/discover`.
    DiscoverUnknown(Revision),
    /// This argument contains a placeholder, but the tool requires that a header field repeats the
    /// argument. Header fields cannot contain placeholders.
    MirroredPlaceholder(String),
    /// The operation `read` is chosen without the URI of a resource.
    ResourceMissing,
    /// The arguments contain the URI of a resource, but no operation `read` that would use it.
    ResourceUnused,
    /// All tools of the server require arguments. This error contains the names of the tools.
    ToolMissing(Vec<String>),
    /// A tool or its arguments are given without the operation `call`.
    ToolUnused,
}

impl McpOperations {
    /// Returns the operations of the load. `facts` describes the server.
    ///
    /// # Errors
    /// Returns an error if an option is missing or has no effect, or if the server does not support an
    /// operation.
    pub fn resolve(&self, facts: &McpServerFacts) -> Result<Vec<McpOperation>, InvalidOperations> {
        self.check()?;
        let operations = self.kinds.iter();
        operations
            .map(|(kind, weight)| Ok(McpOperation { weight: *weight, ..self.operation(*kind, facts)? }))
            .collect()
    }

    /// Returns the operation that calls the tool.
    ///
    /// # Errors
    /// Returns an error if the server has no suitable tool, or if an argument cannot be sent.
    pub fn call(&self, facts: &McpServerFacts) -> Result<McpOperation, InvalidOperations> {
        let tool = self.chosen_tool(facts)?;
        let arguments = self.arguments.clone().unwrap_or_else(|| default_arguments(&tool));
        let mirrored = tool.mirrored(&arguments);
        if let Some((_, value)) = mirrored.iter().find(|(_, value)| has_placeholder(value)) {
            return Err(InvalidOperations::MirroredPlaceholder(value.clone()));
        }
        let params = json!({"name": tool.name, "arguments": arguments});
        Ok(McpOperation { params, mirrored, ..plain("tools/call") })
    }

    /// Checks that no option is missing and that each option has an effect.
    fn check(&self) -> Result<(), InvalidOperations> {
        let has = |wanted| self.kinds.iter().any(|(kind, _)| *kind == wanted);
        if (self.tool.is_some() || self.arguments.is_some()) && !has(OperationKind::Call) {
            return Err(InvalidOperations::ToolUnused);
        }
        match (&self.uri, has(OperationKind::Read)) {
            (None, true) => Err(InvalidOperations::ResourceMissing),
            (Some(_), false) => Err(InvalidOperations::ResourceUnused),
            _ => Ok(()),
        }
    }

    fn operation(
        &self,
        kind: OperationKind,
        facts: &McpServerFacts,
    ) -> Result<McpOperation, InvalidOperations> {
        Ok(match (kind, facts.revision.era()) {
            (OperationKind::Call, _) => return self.call(facts),
            (OperationKind::List, _) => plain("tools/list"),
            (OperationKind::Ping, Era::Legacy) => plain("ping"),
            (OperationKind::Ping | OperationKind::Discover, Era::Modern) => plain("server/discover"),
            (OperationKind::Discover, Era::Legacy) => {
                return Err(InvalidOperations::DiscoverUnknown(facts.revision));
            }
            (OperationKind::Resources, _) => plain("resources/list"),
            (OperationKind::Read, _) => {
                McpOperation { params: json!({"uri": self.uri}), ..plain("resources/read") }
            }
            (OperationKind::Prompts, _) => plain("prompts/list"),
        })
    }

    /// Returns the tool that the user chose, or else a tool that can be called with default arguments.
    fn chosen_tool(&self, facts: &McpServerFacts) -> Result<FoundTool, InvalidOperations> {
        let find = |name: &str| facts.tools.iter().find(|tool| tool.name == name);
        if let Some(name) = &self.tool {
            // The tool may exist although it is not listed: the server may list it on a later page.
            let unlisted = || FoundTool { name: name.clone(), input_schema: Value::Null };
            return Ok(find(name).cloned().unwrap_or_else(unlisted));
        }
        let simple = || facts.tools.iter().find(|tool| tool.required().is_empty());
        let found = find("echo").or_else(simple).cloned();
        let names = || facts.tools.iter().map(|tool| tool.name.clone()).collect();
        found.ok_or_else(|| InvalidOperations::ToolMissing(names()))
    }
}

/// Describes the operations as text, such as `tools/call echo ×8, tools/list`.
pub fn describe_operations(operations: &[McpOperation]) -> String {
    let descriptions: Vec<_> = operations
        .iter()
        .map(|operation| {
            let tool = operation.params["name"].as_str().map(|name| format!(" {name}"));
            let weight = (operations.len() > 1).then(|| format!(" ×{}", operation.weight));
            [operation.method.clone(), tool.unwrap_or_default(), weight.unwrap_or_default()].concat()
        })
        .collect();
    descriptions.join(", ")
}

fn plain(method: &str) -> McpOperation {
    McpOperation { method: method.to_owned(), params: json!({}), mirrored: Vec::new(), weight: 1 }
}

/// Returns the default arguments of a tool. `echo` gets a text for each required argument; other tools get
/// no arguments.
fn default_arguments(tool: &FoundTool) -> Value {
    let required = if tool.name == "echo" { tool.required() } else { Vec::new() };
    let texts = required.into_iter().map(|name| (name.to_owned(), Value::from(MESSAGE)));
    Value::Object(texts.collect())
}

fn has_placeholder(text: &str) -> bool {
    text.contains("{n}") || text.contains("{random}")
}

impl InvalidOperations {
    /// Returns the hint that `thruway bench` prints below the error.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::ToolMissing(names) if !names.is_empty() => {
                let names: Vec<_> = names.iter().map(|name| name.escape_debug().to_string()).collect();
                return format!(
                    "choose one of {} with `--tool`, and pass its `--arguments`",
                    names.join(", ")
                );
            }
            Self::ToolMissing(_) => {
                "the server has no tools: use another operation, such as `--operation list`"
            }
            Self::DiscoverUnknown(_) => "use `--operation ping` instead",
            Self::MirroredPlaceholder(_) => "write the argument without a placeholder",
            Self::ResourceMissing => "name the resource with `--uri`",
            Self::ResourceUnused => "add `--operation read`",
            Self::ToolUnused => "add `--operation call`",
        };
        hint.to_owned()
    }
}

impl fmt::Display for InvalidOperations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiscoverUnknown(revision) => write!(f, "revision {revision} has no `server/discover`"),
            Self::MirroredPlaceholder(argument) => {
                write!(
                    f,
                    "the argument `{}` must not contain a placeholder, because a header repeats the argument",
                    argument.escape_debug()
                )
            }
            Self::ResourceMissing => f.write_str("`--uri` is missing"),
            Self::ResourceUnused => f.write_str("`--uri` has no effect without `--operation read`"),
            Self::ToolMissing(_) => f.write_str("the server has no tool without required arguments"),
            Self::ToolUnused => f.write_str("`--tool` has no effect without `--operation call`"),
        }
    }
}

impl std::error::Error for InvalidOperations {}

const MESSAGE: &str = "Benchmark test message {n}";
