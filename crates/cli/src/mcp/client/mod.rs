//! `thruway mcp discover`, `ping`, `tools`, `call`, `resources`, `read`, `prompts`, `get`, `complete`,
//! `listen` and `tasks`: a server, seen from a terminal.

mod target;
pub(super) mod login;
mod tokens;
mod arguments;
mod question;
mod trace;
mod print;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::oauth::OAuthError;
use thruway_mcp_sdk::schema::{ProgressNotificationParams, SubscriptionFilter};
use thruway_mcp_sdk::{McpClient, McpClientError, Revision, ToolOutcome};

use crate::args::{McpClientArgs, McpClientCommand, McpTaskArgs};
use crate::config::Failure;
use print::{Printer, SaveDirectory};
use target::Target;

/// Asks a server, and prints what it answers.
pub(crate) fn run(command: McpClientCommand, args: &McpClientArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no reactor is to be had: {error}")))?;
    let outcome = runtime.block_on(async {
        let Target { client, words } = Target::of(args)?;
        let outcome = ask(command, &client, &words, args).await;
        client.close().await;
        outcome
    });
    // Somebody may still be asked at the terminal, who need not answer any more.
    runtime.shutdown_background();
    outcome
}

/// What came of a command that was understood: its result, or why the server has none.
type Asked = Result<ExitCode, McpClientError>;

async fn ask(
    command: McpClientCommand,
    client: &McpClient,
    words: &[String],
    args: &McpClientArgs,
) -> Result<ExitCode, Failure> {
    let directory = args.save.as_deref().map(SaveDirectory::new);
    let printer = Printer { output: args.output, save: directory.as_ref() };
    let asked = match (command, words) {
        (McpClientCommand::Discover, []) => discover(client, printer).await,
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
                // Only that one has a list.
                Ok(_) => return Err(misunderstood(command)),
                Err(error) => Err(error),
            }
        }
        _ => return Err(misunderstood(command)),
    };
    asked.or_else(|error| refused(&error))
}

async fn discover(client: &McpClient, printer: Printer<'_>) -> Asked {
    let result = client.discover().await?;
    Ok(printer.discovered(&result, client.revision().await?))
}

async fn resources(client: &McpClient, printer: Printer<'_>) -> Asked {
    let resources = client.list_resources().await?;
    let templates = match client.list_resource_templates().await {
        // Servers without templates need not know what they are.
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
        // Without arguments, there is nothing that a schema could say about them.
        None if pairs.is_empty() => serde_json::Map::new(),
        None => match client.list_tools().await {
            Ok(tools) => arguments::of_tool(pairs, tools.iter().find(|one| one.name == tool))?,
            Err(error) => return refused(&error),
        },
    };
    // Each report of progress lets the call take longer, whether or not somebody sees it.
    let is_shown = io::stderr().is_terminal();
    let client = client.clone().with_progress(move |progress| {
        if is_shown {
            tell(&progress);
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

fn tell(progress: &ProgressNotificationParams) {
    let total = progress.total.map_or_else(String::new, |total| format!(" of {total}"));
    let message = progress.message.as_deref().unwrap_or_default();
    print::to_stderr(&format!("{}{total} {message}", progress.progress));
}

/// What the server refuses is an answer too, and not one to go on with; anything else means that there is no
/// server.
fn refusal(error: &McpClientError) -> Option<String> {
    match error {
        McpClientError::Server(error) if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => Some(
            format!("the server refuses: {error}: it wants to ask somebody, and nobody is at a terminal"),
        ),
        McpClientError::Server(error) => Some(format!("the server refuses: {error}")),
        McpClientError::TaskCancelled | McpClientError::QuestionFailed(_) => Some(error.to_string()),
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
            Err(login::nobody_is_there())
        }
        McpClientError::Status(status) if matches!(status.as_u16(), 404 | 405) => {
            Err(Failure::new(error)
                .with_hint("is that the path of its endpoint? That of many servers is `/mcp`"))
        }
        McpClientError::Closed | McpClientError::MessageInvalid => {
            Err(Failure::new(error).with_hint("`--trace` shows what it has said"))
        }
        error => Err(Failure::new(error)),
    }
}

fn misunderstood(command: McpClientCommand) -> Failure {
    let words = match command {
        McpClientCommand::Call => "a tool, and `key=value` for each argument",
        McpClientCommand::Get => "a prompt, and `key=value` for each argument",
        McpClientCommand::Read => "the URI of a resource",
        McpClientCommand::Complete => "a prompt or the template of a resource, and `key=value`",
        McpClientCommand::Tasks => "the id of a task",
        _ => "nothing else",
    };
    Failure::new(format!("after the server, {words} is expected"))
        .with_hint("a server is a URL, which comes first, or a command, which comes last and after `--`")
}

/// Prints changes until there are enough, or no more.
async fn listen(client: &McpClient, uris: &[String], count: Option<usize>, printer: Printer<'_>) -> Asked {
    let filter = SubscriptionFilter {
        tools_list_changed: Some(true),
        prompts_list_changed: Some(true),
        resources_list_changed: Some(true),
        resource_subscriptions: uris.to_vec(),
    };
    let mut subscription = client.listen(filter).await?;
    let mut told = 0;
    while count.is_none_or(|count| told < count) {
        let Some(change) = subscription.next().await else { break };
        told += 1;
        let code = printer.change(&change);
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    match subscription.end() {
        Some(error) if count.is_none_or(|count| told < count) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints how tasks stand, waits for them, or gives them up. What the server says of one is of no other.
async fn tasks(client: &McpClient, ids: &[String], args: &McpTaskArgs, printer: Printer<'_>) -> Asked {
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

async fn task(client: &McpClient, id: &str, args: &McpTaskArgs, printer: Printer<'_>) -> Asked {
    if args.wait {
        return Ok(printer.result(&client.wait_for_task(id).await?));
    }
    if args.cancel {
        client.cancel_task(id).await?;
    }
    Ok(printer.detailed_task(&client.get_task(id).await?))
}
