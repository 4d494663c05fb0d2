//! `thruway mcp discover`, `inspect`, `ping`, `tools`, `call`, `resources`, `read`, `prompts`, `get`, `complete`,
//! `listen` and `tasks`: an MCP client for the terminal.

mod target;
pub(super) mod login;
mod tokens;
mod arguments;
mod elicitation;
mod print;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use thruway_mcp_dev::{InspectError, Inspection};
use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::oauth::OAuthError;
use thruway_mcp_sdk::schema::{ProgressNotificationParams, SubscriptionFilter};
use thruway_mcp_sdk::{McpClient, McpClientError, Revision, ToolOutcome};

use crate::args::{McpClientArgs, McpClientCommand, McpTaskArgs};
use crate::config::Failure;
use print::{Printer, SaveDirectory};
use target::Target;

/// Sends a request to a server and prints the response.
pub(crate) fn run(command: McpClientCommand, args: &McpClientArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the event loop: {error}")))?;
    let outcome = runtime.block_on(async {
        let Target { client, words } = Target::of(args)?;
        let outcome = execute(command, &client, &words, args).await;
        client.close().await;
        outcome
    });
    // The thread that reads answers from the terminal may still wait for input. `shutdown_background` does
    // not wait for this thread, so the command ends at once.
    runtime.shutdown_background();
    outcome
}

/// Result of a command: the exit code, or the error of the MCP client.
type CommandResult = Result<ExitCode, McpClientError>;

async fn execute(
    command: McpClientCommand,
    client: &McpClient,
    words: &[String],
    args: &McpClientArgs,
) -> Result<ExitCode, Failure> {
    let directory = args.save.as_deref().map(SaveDirectory::new);
    let printer = Printer { output: args.output, save: directory.as_ref() };
    let outcome = match (command, words) {
        (McpClientCommand::Discover, []) => discover(client, printer).await,
        (McpClientCommand::Inspect, []) => match Inspection::collect(client, args.timeout).await {
            Ok(inspection) => Ok(printer.inspection(&inspection)),
            Err(InspectError::Client(error)) => Err(error),
            Err(error) => return Err(Failure::new(error)),
        },
        (McpClientCommand::Ping, []) => client.ping().await.map(|()| ExitCode::SUCCESS),
        (McpClientCommand::Tools, []) => client.list_tools().await.map(|tools| printer.tools(&tools)),
        (McpClientCommand::Resources, []) => resources(client, printer).await,
        (McpClientCommand::Prompts, []) => {
            client.list_prompts().await.map(|prompts| printer.prompts(&prompts))
        }
        (McpClientCommand::Read, [uri]) => {
            client.read_resource(uri).await.map(|read| printer.contents(&read))
        }
        (McpClientCommand::Call, [tool, pairs @ ..]) => {
            return call(client, tool, pairs, args, printer).await;
        }
        (McpClientCommand::Get, [prompt, pairs @ ..]) => {
            let arguments = arguments::of_prompt(pairs)?;
            client.get_prompt(prompt, arguments).await.map(|result| printer.messages(&result))
        }
        (McpClientCommand::Complete, [reference, argument, known @ ..]) => {
            let (reference, argument, context) = arguments::of_completion(reference, argument, known)?;
            let completing = client.complete(reference, argument, context);
            completing.await.map(|completion| printer.completion(&completion))
        }
        (McpClientCommand::Listen, uris) => listen(client, uris, args.count, printer).await,
        (McpClientCommand::Tasks, ids) if !ids.is_empty() => tasks(client, ids, &args.tasks, printer).await,
        (McpClientCommand::Tasks, []) if !args.tasks.wait && !args.tasks.cancel => {
            match client.revision().await {
                Ok(Revision::R20251125) => client.list_tasks().await.map(|tasks| printer.tasks(&tasks)),
                // Only revision 2025-11-25 can list tasks.
                Ok(_) => return Err(wrong_arguments(command)),
                Err(error) => Err(error),
            }
        }
        _ => return Err(wrong_arguments(command)),
    };
    outcome.or_else(|error| refused(&error))
}

async fn discover(client: &McpClient, printer: Printer<'_>) -> CommandResult {
    let result = client.discover().await?;
    Ok(printer.discovered(&result, client.revision().await?))
}

async fn resources(client: &McpClient, printer: Printer<'_>) -> CommandResult {
    let resources = client.list_resources().await?;
    let templates = match client.list_resource_templates().await {
        // A server without resource templates may not support the method `resources/templates/list`.
        Err(McpClientError::Server(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Vec::new(),
        templates => templates?,
    };
    Ok(printer.resources(&resources, &templates))
}

async fn call(
    client: &McpClient,
    tool: &str,
    pairs: &[String],
    args: &McpClientArgs,
    printer: Printer<'_>,
) -> Result<ExitCode, Failure> {
    let arguments = match &args.json {
        Some(json) => arguments::of_json(json)?,
        // Without arguments, the schema of the tool is not needed.
        None if pairs.is_empty() => serde_json::Map::new(),
        None => match client.list_tools().await {
            Ok(tools) => arguments::of_tool(pairs, tools.iter().find(|one| one.name == tool))?,
            Err(error) => return refused(&error),
        },
    };
    // The server sends progress reports only if the client has this callback. Each progress report restarts
    // the timeout of the call, so the callback is set even if the reports are not printed.
    let is_shown = io::stderr().is_terminal();
    let client = client.clone().with_progress(move |progress| {
        if is_shown {
            print_progress(&progress);
        }
    });
    let called = if args.tasks.no_wait {
        client.begin_tool(tool, arguments).await
    } else {
        client.call_tool(tool, arguments).await.map(ToolOutcome::Result)
    };
    match called {
        Ok(ToolOutcome::Result(result)) => Ok(printer.result(&result)),
        Ok(ToolOutcome::Task(task)) => Ok(printer.task(&task)),
        Err(error) => refused(&error),
    }
}

fn print_progress(progress: &ProgressNotificationParams) {
    let total = progress.total.map_or_else(String::new, |total| format!(" of {total}"));
    let message = progress.message.as_deref().unwrap_or_default();
    print::to_stderr(&format!("{}{total} {message}", progress.progress));
}

/// Returns an error message if the server refused the request. Returns `None` if the request failed for
/// another reason, such as a failed connection.
fn refusal(error: &McpClientError) -> Option<String> {
    match error {
        McpClientError::Server(error) if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => {
            Some(format!(
                "the server refused the request: {error}; it needs input from the user, but this command has no terminal"
            ))
        }
        McpClientError::Server(error) => Some(format!("the server refused the request: {error}")),
        McpClientError::TaskCancelled | McpClientError::InputRequestFailed(_) => Some(error.to_string()),
        _ => None,
    }
}

fn refused(error: &McpClientError) -> Result<ExitCode, Failure> {
    if let Some(reason) = refusal(error) {
        print::to_stderr(&format!("error: {reason}"));
        return Ok(ExitCode::FAILURE);
    }
    match error {
        McpClientError::Authorization(OAuthError::LoginFailed(io::ErrorKind::Unsupported)) => {
            Err(login::no_terminal())
        }
        McpClientError::Status(status) if matches!(status.as_u16(), 404 | 405) => {
            Err(Failure::new(error).with_hint("check the path of the endpoint; it is often `/mcp`"))
        }
        McpClientError::Closed | McpClientError::MessageInvalid => {
            Err(Failure::new(error).with_hint("`--trace` prints the messages"))
        }
        error => Err(Failure::new(error)),
    }
}

fn wrong_arguments(command: McpClientCommand) -> Failure {
    let words = match command {
        McpClientCommand::Call => "a tool, and `key=value` for each argument",
        McpClientCommand::Get => "a prompt, and `key=value` for each argument",
        McpClientCommand::Read => "the URI of a resource",
        McpClientCommand::Complete => "a prompt or a resource template, and `key=value`",
        McpClientCommand::Tasks => "the id of a task",
        _ => "no arguments",
    };
    Failure::new(format!("expected {words} after the server"))
        .with_hint("pass the server as a URL in the first argument, or as a command after `--`")
}

/// Prints up to `--count` changes. Stops early if the server ends the subscription.
async fn listen(
    client: &McpClient,
    uris: &[String],
    count: Option<usize>,
    printer: Printer<'_>,
) -> CommandResult {
    let filter = SubscriptionFilter {
        tools_list_changed: Some(true),
        prompts_list_changed: Some(true),
        resources_list_changed: Some(true),
        resource_subscriptions: uris.to_vec(),
    };
    let mut subscription = client.listen(filter).await?;
    let mut written = 0;
    while count.is_none_or(|count| written < count) {
        let Some(change) = subscription.next().await else { break };
        written += 1;
        let code = printer.change(&change);
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    match subscription.end() {
        Some(error) if count.is_none_or(|count| written < count) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Shows tasks, waits for tasks, or cancels tasks. If the server refuses the request for one task, continues
/// with the next task.
async fn tasks(
    client: &McpClient,
    ids: &[String],
    args: &McpTaskArgs,
    printer: Printer<'_>,
) -> CommandResult {
    let mut all = ExitCode::SUCCESS;
    for id in ids {
        let code = match task(client, id, args, printer).await {
            Ok(code) => code,
            Err(error) => {
                let Some(reason) = refusal(&error) else { return Err(error) };
                print::to_stderr(&format!("error: `{id}`: {reason}"));
                ExitCode::FAILURE
            }
        };
        if code != ExitCode::SUCCESS {
            all = code;
        }
    }
    Ok(all)
}

async fn task(client: &McpClient, id: &str, args: &McpTaskArgs, printer: Printer<'_>) -> CommandResult {
    if args.wait {
        return Ok(printer.result(&client.wait_for_task(id).await?));
    }
    if args.cancel {
        client.cancel_task(id).await?;
    }
    Ok(printer.detailed_task(&client.get_task(id).await?))
}
