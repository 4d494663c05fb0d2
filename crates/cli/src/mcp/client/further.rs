//! What goes on: changes, and tasks.

use std::process::ExitCode;

use thruway_mcp_sdk::McpClient;
use thruway_mcp_sdk::schema::SubscriptionFilter;

use super::print::{self, Printer};
use super::{Asked, refusal};
use crate::args::McpTaskArgs;

/// Prints changes until there are enough, or no more.
pub(super) async fn listen(
    client: &McpClient,
    uris: &[String],
    count: Option<usize>,
    printer: Printer<'_>,
) -> Asked {
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
pub(super) async fn tasks(
    client: &McpClient,
    ids: &[String],
    args: &McpTaskArgs,
    printer: Printer<'_>,
) -> Asked {
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
