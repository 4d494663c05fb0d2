//! Operations, as the arguments and the server say.

use serde_json::{Value, json};
use thruway_bench::{Era, FoundTool, McpOperation, McpServerFacts};

use super::args::{McpArgs, OperationName};
use crate::config::Failure;

/// What is sent to a server that says this of itself.
pub(super) fn resolve(args: &McpArgs, facts: &McpServerFacts) -> Result<Vec<McpOperation>, Failure> {
    let operations = args.operations();
    check(args, &operations)?;
    operations
        .into_iter()
        .map(|(name, weight)| Ok(McpOperation { weight, ..operation(name, args, facts)? }))
        .collect()
}

/// In words: `tools/call echo ×8, tools/list`.
pub(super) fn describe(operations: &[McpOperation]) -> String {
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

/// What is given and of no use.
fn check(args: &McpArgs, operations: &[(OperationName, u32)]) -> Result<(), Failure> {
    let has = |wanted| operations.iter().any(|(name, _)| *name == wanted);
    if (args.tool.is_some() || args.arguments.is_some()) && !has(OperationName::Call) {
        return Err(Failure::new("no tool is called").with_hint("`--operation call` calls one"));
    }
    match (&args.uri, has(OperationName::Read)) {
        (None, true) => Err(Failure::new("no resource is named").with_hint("`--uri` names the one to read")),
        (Some(_), false) => {
            Err(Failure::new("no resource is read").with_hint("`--operation read` reads one"))
        }
        _ => Ok(()),
    }
}

fn operation(name: OperationName, args: &McpArgs, facts: &McpServerFacts) -> Result<McpOperation, Failure> {
    let era = facts.revision.era();
    Ok(match (name, era) {
        (OperationName::Call, _) => return call(args, facts),
        (OperationName::List, _) => plain("tools/list"),
        (OperationName::Ping, Era::Legacy) => plain("ping"),
        (OperationName::Ping | OperationName::Discover, Era::Modern) => plain("server/discover"),
        (OperationName::Discover, Era::Legacy) => {
            return Err(Failure::new(format!("revision {} has no `server/discover`", facts.revision))
                .with_hint("`--operation ping` is what comes closest to it"));
        }
        (OperationName::Resources, _) => plain("resources/list"),
        (OperationName::Read, _) => {
            McpOperation { params: json!({"uri": args.uri}), ..plain("resources/read") }
        }
        (OperationName::Prompts, _) => plain("prompts/list"),
    })
}

fn plain(method: &str) -> McpOperation {
    McpOperation { method: method.to_owned(), params: json!({}), mirrored: Vec::new(), weight: 1 }
}

/// A call of the tool that is asked for.
pub(super) fn call(args: &McpArgs, facts: &McpServerFacts) -> Result<McpOperation, Failure> {
    let tool = chosen_tool(args, facts)?;
    let arguments = args.arguments.clone().unwrap_or_else(|| default_arguments(&tool));
    let mirrored = tool.mirrored(&arguments);
    if let Some((_, value)) = mirrored.iter().find(|(_, value)| has_placeholder(value)) {
        let message = format!("the argument `{}` is mirrored in a header", value.escape_debug());
        return Err(Failure::new(message).with_hint("give it without a placeholder"));
    }
    let params = json!({"name": tool.name, "arguments": arguments});
    Ok(McpOperation { params, mirrored, ..plain("tools/call") })
}

/// The tool that is asked for, or one that can be called without knowing it.
fn chosen_tool(args: &McpArgs, facts: &McpServerFacts) -> Result<FoundTool, Failure> {
    let find = |name: &str| facts.tools.iter().find(|tool| tool.name == name);
    if let Some(name) = &args.tool {
        // It may stand on another page of the list.
        let unlisted = || FoundTool { name: name.clone(), input_schema: Value::Null };
        return Ok(find(name).cloned().unwrap_or_else(unlisted));
    }
    let simple = || facts.tools.iter().find(|tool| tool.required().is_empty());
    let found = find("echo").or_else(simple).cloned();
    found.ok_or_else(|| {
        let names: Vec<_> = facts.tools.iter().map(|tool| tool.name.escape_debug().to_string()).collect();
        let hint = match &names[..] {
            [] => "the server has no tools; `--operation list` and others need none".to_owned(),
            names => format!("choose one of {} with `--tool`, and give its `--arguments`", names.join(", ")),
        };
        Failure::new("the server has no tool that can be called without arguments").with_hint(hint)
    })
}

/// A text for each argument that `echo` must have; others get none.
fn default_arguments(tool: &FoundTool) -> Value {
    let required = if tool.name == "echo" { tool.required() } else { Vec::new() };
    let texts = required.into_iter().map(|name| (name.to_owned(), Value::from(MESSAGE)));
    Value::Object(texts.collect())
}

fn has_placeholder(text: &str) -> bool {
    text.contains("{n}") || text.contains("{random}")
}

const MESSAGE: &str = "Benchmark test message {n}";
