//! `thruway mcp federate`.

use std::collections::BTreeMap;
use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use thruway_demo::mcp::mount_endpoint;
use thruway_mcp_sdk::{
    BridgeOptions, McpClient, McpClientBuilder, McpClientError, McpEndpoint, McpGateway, McpGatewayBuilder,
    McpGatewayError, McpGatewayOptions, McpServerOptions, Member, NameStyle,
};
use thruway_server::{Router, Server, ServerError, TerminationSignals, Timeouts, raise_descriptor_limit};
use tokio::runtime::Runtime;

use super::access::Access;
use super::bridge::{CLOSE_TIME, exit_at_second_signal, exit_code_of_client, refuse_access_options, runtime};
use super::serve::{exit_code, server_options};
use crate::args::{McpFederateArgs, McpNames};
use crate::config::{Failure, parse_headers};

/// Serves the tools of several MCP servers.
pub(crate) fn run(args: &McpFederateArgs) -> Result<ExitCode, Failure> {
    let targets = targets(args)?;
    if args.listen.is_empty() {
        refuse_access_options(&args.access)?;
        return serve_stdio(args, targets);
    }
    serve_http(args, targets)
}

fn serve_stdio(args: &McpFederateArgs, targets: Vec<Target>) -> Result<ExitCode, Failure> {
    runtime()?.block_on(async {
        let gateway = gateway(args, targets)?;
        let outcome = gateway.serve_standard_streams().await;
        gateway.close().await;
        Ok(exit_code_of_client(outcome))
    })
}

fn serve_http(args: &McpFederateArgs, targets: Vec<Target>) -> Result<ExitCode, Failure> {
    let access = Access::of(&args.access)?;
    let listeners = access.listeners(&args.listen)?;
    raise_descriptor_limit();
    let mut signals = TerminationSignals::take_over().map_err(ServerError::from)?;
    let background = background_runtime()?;
    let gateway = {
        let _context = background.enter();
        gateway(args, targets)?
    };
    let endpoint = args.allow_host.iter().fold(gateway.endpoint(), McpEndpoint::allow_host);
    let router = mount_endpoint(Router::new(), access.protect(endpoint));
    let server = Server::new(router).workers(args.workers.into());
    let server = access.start(server, listeners)?;
    signals.wait();
    tracing::info!("draining");
    exit_at_second_signal(signals);
    // The workers close their connections to the servers, so they end after the gateway.
    let hold = server.drain_and_hold();
    let within = Timeouts::default().drain.saturating_sub(CLOSE_TIME);
    background.block_on(gateway.drain(within));
    drop(hold);
    Ok(exit_code(&server.join()))
}

/// Starts a thread with the event loop in which the gateway connects to its servers. The thread runs until the
/// process ends.
fn background_runtime() -> Result<Arc<Runtime>, Failure> {
    let runtime = Arc::new(runtime()?);
    let background = runtime.clone();
    thread::spawn(move || background.block_on(pending::<()>()));
    Ok(runtime)
}

fn gateway(args: &McpFederateArgs, targets: Vec<Target>) -> Result<McpGateway, Failure> {
    let default = McpGatewayOptions::default();
    let server = McpServerOptions { session_idle: args.session_idle, ..server_options(&args.limits) };
    let options = McpGatewayOptions {
        names: match args.names {
            McpNames::Plain => NameStyle::Plain,
            McpNames::Prefixed => NameStyle::Prefixed,
        },
        prefer: args.prefer.clone(),
        list_wait: args.list_wait,
        bridge: BridgeOptions { server, ..default.bridge.clone() },
        ..default
    };
    let builder = McpGateway::builder("thruway", env!("CARGO_PKG_VERSION")).options(options);
    let members = targets.into_iter().map(Target::into_member);
    members.fold(builder, McpGatewayBuilder::member).build().map_err(|error| failure(&error))
}

fn failure(error: &McpGatewayError) -> Failure {
    let failure = Failure::new(error);
    match error {
        McpGatewayError::InvalidName(_) | McpGatewayError::DuplicateName(_) => {
            failure.with_hint("write `NAME=URL`, or `-- NAME=PROGRAM`, with a different name for each server")
        }
        McpGatewayError::UnknownPreferred(_) => {
            failure.with_hint("pass `--prefer` with the name of a server in the command line")
        }
        McpGatewayError::PreferWithoutPlainNames => failure.with_hint("add `--names plain`"),
        _ => failure,
    }
}

/// An MCP server of the command line.
struct Target {
    name: String,
    address: Address,
}

enum Address {
    Url { url: String, fields: Vec<(String, String)> },
    Command(Vec<String>),
}

impl Target {
    fn into_member(self) -> Member {
        let address = self.address;
        Member::new(self.name, move |builder| address.connect(builder))
    }
}

impl Address {
    fn connect(&self, builder: McpClientBuilder) -> Result<McpClient, McpClientError> {
        match self {
            Self::Url { url, fields } => {
                let fields = fields.iter();
                Ok(fields.fold(builder, |builder, (name, value)| builder.field(name, value)).http(url))
            }
            Self::Command(words) => {
                builder.command(thruway_daemon::child_command(words, &BTreeMap::new(), None))
            }
        }
    }
}

/// Returns the servers of the command line, with URLs first.
fn targets(args: &McpFederateArgs) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for text in &args.urls {
        let (name, url) = named(text).ok_or_else(|| {
            Failure::new(format!("`{}` is not `NAME=URL`", text.escape_debug())).with_hint(URL_HINT)
        })?;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Failure::new(format!(
                "the URL of `{name}` does not begin with `http://` or `https://`"
            ))
            .with_hint("pass commands after `--`: `-- NAME=PROGRAM ARG`"));
        }
        targets.push(Target { name, address: Address::Url { url, fields: Vec::new() } });
    }
    for line in &args.header {
        add_header(&mut targets, line)?;
    }
    targets.extend(commands(&args.command)?);
    Ok(targets)
}

/// Adds the header of an option `-H` to its server. Errors do not show the header, because it may be secret.
fn add_header(targets: &mut [Target], line: &str) -> Result<(), Failure> {
    let invalid = |message: String| Failure::new(message).with_hint("write `-H 'NAME=Header: value'`");
    let (name, line) = named(line).ok_or_else(|| invalid("a value of `-H` has no server name".to_owned()))?;
    let target = targets.iter_mut().find(|target| target.name == name);
    match target.map(|target| &mut target.address) {
        Some(Address::Url { fields, .. }) => fields.extend(parse_headers(&[line])?),
        _ => {
            return Err(invalid("the server name in `-H` is not the name of a server with a URL".to_owned()));
        }
    }
    Ok(())
}

/// Splits the words after the first `--` into the commands of the servers. A further `--` before
/// `NAME=PROGRAM` begins the next command.
fn commands(words: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets: Vec<Target> = Vec::new();
    let mut words = words.iter().peekable();
    let mut begins = true;
    while let Some(word) = words.next() {
        if word == "--" && words.peek().is_some_and(|next| named(next).is_some()) {
            begins = true;
            continue;
        }
        match targets.last_mut() {
            Some(Target { address: Address::Command(command), .. }) if !begins => command.push(word.clone()),
            _ => {
                let (name, program) = named(word).ok_or_else(|| {
                    Failure::new(format!("`{}` is not `NAME=PROGRAM`", word.escape_debug()))
                        .with_hint("write the name of the server before its program: `-- files=npx -y …`")
                })?;
                targets.push(Target { name, address: Address::Command(vec![program]) });
                begins = false;
            }
        }
    }
    Ok(targets)
}

/// Splits `NAME=VALUE`. Returns `None` if the name or the value is missing. The gateway checks the name, but a
/// name before `=` has no `/` and `:`, so that a URL with `=` in its query is not taken for a name.
fn named(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let is_named = !name.is_empty() && !value.is_empty() && !name.contains(['/', ':', ' ']);
    is_named.then(|| (name.to_owned(), value.to_owned()))
}

const URL_HINT: &str = "write the name of the server before its URL: `docs=https://docs.example/mcp`";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Option<Vec<(String, Vec<String>)>> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let words_of = |target: Target| match target.address {
            Address::Command(words) => (target.name, words),
            Address::Url { .. } => panic!("a command is not a URL"),
        };
        Some(commands(&words).ok()?.into_iter().map(words_of).collect())
    }

    #[test]
    fn commands_are_separated_by_two_hyphens_before_a_name() {
        let command = |name: &str, words: &[&str]| {
            (name.to_owned(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parsed(&[]), Some(vec![]));
        assert_eq!(parsed(&["a=x", "-y", "b=c"]), Some(vec![command("a", &["x", "-y", "b=c"])]));
        assert_eq!(
            parsed(&["a=x", "--", "y", "--", "b=z"]),
            Some(vec![command("a", &["x", "--", "y"]), command("b", &["z"])])
        );
        for words in [&["x"][..], &["=x"], &["a="], &["http://a/?b=c"]] {
            assert_eq!(parsed(words), None, "{words:?}");
        }
    }
}
