//! Finds the server in the arguments: a URL as the first argument, or a command after `--`.

use std::process::Command;

use thruway_mcp_sdk::schema::{ClientCapabilities, Implementation};
use thruway_mcp_sdk::{McpClient, McpClientOptions};

use super::login::Login;
use super::{elicitation, print};
use crate::args::McpClientArgs;
use crate::config::{Failure, parse_headers};

/// The MCP client for the server on the command line, and the remaining arguments.
pub(super) struct Target {
    pub(super) client: McpClient,
    pub(super) words: Vec<String>,
}

impl Target {
    pub(super) fn of(args: &McpClientArgs) -> Result<Self, Failure> {
        let options = McpClientOptions {
            client_info: Implementation::new("thruway", env!("CARGO_PKG_VERSION")),
            era: args.era,
            timeout: args.timeout,
            ..McpClientOptions::default()
        };
        let mut builder = McpClient::builder().options(options);
        if args.trace {
            builder = builder.on_message(print::tracer());
        }
        // If the server runs a tool call as a task, the client waits for the result of the task, unless
        // `--no-wait` is set.
        let builder = elicitation::answering(builder, ClientCapabilities::default().with_tasks());
        match (&args.command[..], &args.words[..]) {
            ([_, ..], _) if !args.header.is_empty() => Err(Failure::new("`--header` requires a URL")
                .with_hint(
                    "a command after `--` receives no headers: pass its settings as arguments or variables",
                )),
            ([program, command_args @ ..], words) => {
                let mut command = Command::new(program);
                command.args(command_args);
                let client = builder
                    .command(command)
                    .map_err(|error| Failure::new(format!("`{program}`: {error}")))?;
                Ok(Self { client, words: words.to_vec() })
            }
            ([], [url, words @ ..]) if url.contains("://") => {
                let headers = parse_headers(&args.header)?;
                let has_credentials =
                    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Authorization"));
                let builder =
                    headers.into_iter().fold(builder, |builder, (name, value)| builder.field(name, value));
                // A login would add a second header with credentials.
                let builder =
                    if has_credentials { builder } else { Login::of(&args.login)?.prepare(builder) };
                Ok(Self { client: builder.http(url), words: words.to_vec() })
            }
            ([], words) => Err(unknown_target(words.first().map_or("", String::as_str))),
        }
    }
}

/// Returns the error for a command line without a server.
fn unknown_target(first: &str) -> Failure {
    let failure = Failure::new("no server is given");
    if first.contains([':', '/', '.']) {
        let first = first.escape_debug();
        return failure.with_hint(format!(
            "write a URL with its scheme, such as `http://{first}`, or a command after `--`"
        ));
    }
    failure.with_hint("pass the server as a URL in the first argument, or as a command after `--`")
}
