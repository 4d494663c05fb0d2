//! Lists the tools of MCP endpoints for `thruway check`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use thruway_mcp_sdk::{McpGateway, MemberState, MemberStatus, UnmatchedPattern};
use tokio::time::timeout;
use tracing::subscriber::NoSubscriber;

use super::members::RunningUpstreams;
use super::{Replica, gateway_builder};
use crate::config::{Config, Failure};

/// Connects each MCP endpoint of `config` to its servers. Returns a text with the tools of each endpoint, and
/// warnings: about servers that do not respond, and about clashes of names.
///
/// # Errors
/// Returns an error if the system refuses the resources for the connections.
pub(crate) fn list_tools(
    config: &Config,
    upstreams: &RunningUpstreams,
) -> Result<(String, Vec<Failure>), Failure> {
    let (mut text, mut warnings) = (String::new(), Vec::new());
    if config.mcp.endpoints.is_empty() {
        return Ok((text, warnings));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::warning(format!("cannot list MCP tools: {error}")))?;
    // The warnings replace the log messages of the endpoints.
    let _silent = tracing::subscriber::set_default(NoSubscriber::default());
    runtime.block_on(async {
        for name in config.mcp.endpoints.keys() {
            match gateway_builder(config, name, upstreams, Some(TOOLS_MAX), Replica::default()).build() {
                Ok(gateway) => {
                    warnings.extend(push_tools(&mut text, config, name, &gateway).await);
                    let missing = missing_members(config, &gateway);
                    if missing.is_empty() {
                        warnings.extend(unmatched_patterns(config, name, &gateway).await);
                    }
                    warnings.extend(missing);
                    warnings.extend(withheld_items(config, name, &gateway));
                    let _ = timeout(CLOSE_MAX, gateway.close()).await;
                }
                Err(error) => warnings.push(config.failure_at_mcp_endpoint(name, error)),
            }
        }
    });
    // Does not wait for connections that are still in progress.
    runtime.shutdown_background();
    Ok((text, warnings))
}

/// Appends the tools of an endpoint to `text`. Returns a warning for each pinned tool that is missing.
async fn push_tools(text: &mut String, config: &Config, name: &str, gateway: &McpGateway) -> Vec<Failure> {
    // If a required server is missing, the list is empty, and a warning names the server.
    let tools = gateway.tools().await.unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "MCP endpoint {name}: {} tools", tools.len());
    let pinned = config.mcp.endpoints[name].search.as_ref().map_or(&[][..], |search| &search.pinned);
    for (tool, server) in &tools {
        let mark = if pinned.contains(tool) { ", pinned" } else { "" };
        let _ = writeln!(text, "  {} ({server}{mark})", tool.escape_debug());
    }
    let is_missing = |pinned: &&String| tools.iter().all(|(tool, _)| tool != *pinned);
    let warning = |pinned: &String| {
        let message = format!("the tool search pins `{}`, but there is no such tool", pinned.escape_debug());
        config.warning_at_mcp_endpoint(name, message)
    };
    pinned.iter().filter(is_missing).map(warning).collect()
}

/// Returns a warning for each server whose tools the text lacks. A server without tools has an empty list.
fn missing_members(config: &Config, gateway: &McpGateway) -> Vec<Failure> {
    let is_missing = |member: &MemberStatus| member.state != MemberState::Connected || member.tools.is_none();
    let missing = gateway.members().into_iter().filter(is_missing);
    let warning = |member: MemberStatus| {
        let problem =
            if member.state == MemberState::Connected { "sent no list" } else { "is not connected" };
        let reason = member.last_error.unwrap_or_else(|| "no response in time".to_owned());
        let message = format!("the MCP server `{}` {problem}: {reason}", member.name);
        config.warning_at_mcp_server(&member.name, message).with_hint(MISSING_HINT)
    };
    missing.map(warning).collect()
}

/// Returns a warning for each pattern of an access rule that matches no item. Call this function only if all
/// servers have sent their lists.
async fn unmatched_patterns(config: &Config, endpoint: &str, gateway: &McpGateway) -> Vec<Failure> {
    let unmatched = gateway.unmatched_patterns().await.unwrap_or_default();
    let warning = |UnmatchedPattern { rule, kind, pattern, .. }: UnmatchedPattern| {
        let message = format!("the pattern `{}` matches none of the {kind}", pattern.escape_debug());
        let warning = config.warning_at_mcp_pattern(endpoint, rule, &pattern, message);
        warning.with_hint(PATTERN_HINT)
    };
    unmatched.into_iter().map(warning).collect()
}

/// Returns a warning for each item that clients do not get, unless the config says so. A clash of several
/// servers causes one warning.
fn withheld_items(config: &Config, endpoint: &str, gateway: &McpGateway) -> Vec<Failure> {
    let (mut warnings, mut seen) = (Vec::new(), BTreeSet::new());
    for member in gateway.members() {
        for item in member.withheld.into_iter().filter(|item| !item.is_intended) {
            let (name, reason) = (item.name.escape_debug().to_string(), item.reason);
            if seen.insert((name.clone(), reason.clone())) {
                let message =
                    format!("clients of the MCP endpoint `{endpoint}` do not get `{name}`: {reason}");
                let warning = config.warning_at_mcp_server(&member.name, message);
                warnings.push(warning.with_hint(WITHHELD_HINT));
            }
        }
    }
    warnings.truncate(WITHHELD_MAX);
    warnings
}

const MISSING_HINT: &str = "start the server, or check its command or address; the first start with `npx` may download \
                            packages, so try again; `--offline` skips this check";

const PATTERN_HINT: &str =
    "check the spelling; patterns apply to the names that clients use, and the case of letters matters";

const WITHHELD_HINT: &str = "rename or hide the tool, set `prefer`, or use prefixed names";

/// Maximum number of warnings about withheld items of an endpoint.
const WITHHELD_MAX: usize = 20;

/// Maximum time to wait for the tools of an endpoint. Servers in npm packages can need some seconds to start.
const TOOLS_MAX: Duration = Duration::from_secs(5);

/// Maximum time to close the connections of an endpoint.
const CLOSE_MAX: Duration = Duration::from_secs(2);
