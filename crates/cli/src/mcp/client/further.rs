//! What goes on: changes, and tasks.

use std::process::ExitCode;

use thruway_mcp_sdk::McpClient;
use thruway_mcp_sdk::schema::SubscriptionFilter;

use super::Asked;
use super::print::Printer;
use crate::args::McpClientArgs;

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
        ..SubscriptionFilter::default()
    };
    let mut subscription = client.listen(filter).await?;
    let mut told = 0;
    while count.is_none_or(|count| told < count) {
        let Some(change) = subscription.next().await else { break };
        told += 1;
        let printed = printer.change(&change);
        if printed != ExitCode::SUCCESS {
            return Ok(printed);
        }
    }
    match subscription.end() {
        Some(error) if count.is_none_or(|count| told < count) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints how tasks stand, waits for them, or gives them up.
pub(super) async fn tasks(
    client: &McpClient,
    ids: &[String],
    args: &McpClientArgs,
    printer: Printer<'_>,
) -> Asked {
    let mut code = ExitCode::SUCCESS;
    for id in ids {
        let printed = if args.wait {
            printer.result(&client.wait_for_task(id).await?)
        } else {
            if args.cancel {
                client.cancel_task(id).await?;
            }
            printer.detailed_task(&client.get_task(id).await?)
        };
        if printed != ExitCode::SUCCESS {
            code = printed;
        }
    }
    Ok(code)
}
