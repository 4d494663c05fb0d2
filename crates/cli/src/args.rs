//! Arguments of `thruway`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use thruway_mcp_sdk::{EraChoice, Revision};
use thruway_server::Authority;

use crate::bench::BenchCommand;
use crate::sizes::{parse_in_flight_size, parse_message_size};

/// A fast HTTP server and gateway, MCP servers and clients, and a load generator
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = ENVIRONMENT)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
    Top(crate::top::TopArgs),
    Fleet(crate::top::FleetArgs),
    Completions(CompletionsArgs),
    /// Write man pages into a directory
    Man(ManArgs),
    /// Work with the Model Context Protocol
    #[command(subcommand)]
    Mcp(Box<McpCommand>),
    /// Measure servers under load
    #[command(subcommand)]
    Bench(Box<BenchCommand>),
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    Serve(McpServeArgs),
    /// Show the name, revisions and capabilities of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp discover [OPTIONS] URL\n       thruway mcp discover [OPTIONS] -- COMMAND [ARG]...")]
    Discover(McpClientArgs),
    /// Show everything that a server offers: tools with their arguments, prompts and resources
    ///
    /// The command calls no tool and reads no resource. `--output json` prints one JSON document with the
    /// complete schemas. If the server does not send a list that it declares, the exit code is 1.
    #[command(after_help = TARGETS, override_usage = "thruway mcp inspect [OPTIONS] URL\n       thruway mcp inspect [OPTIONS] -- COMMAND [ARG]...")]
    Inspect(McpClientArgs),
    /// Check that a server responds
    #[command(after_help = TARGETS, override_usage = "thruway mcp ping [OPTIONS] URL\n       thruway mcp ping [OPTIONS] -- COMMAND [ARG]...")]
    Ping(McpClientArgs),
    /// List the tools of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp tools [OPTIONS] URL\n       thruway mcp tools [OPTIONS] -- COMMAND [ARG]...")]
    Tools(McpClientArgs),
    /// Call a tool
    ///
    /// Pass the name of the tool, then `key=value` for each argument. The command converts each value to the
    /// type in the schema of the tool.
    #[command(after_help = TARGETS, override_usage = "thruway mcp call [OPTIONS] URL TOOL [KEY=VALUE]...\n       thruway mcp call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND [ARG]...")]
    Call(McpClientArgs),
    /// List the resources and the resource templates of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp resources [OPTIONS] URL\n       thruway mcp resources [OPTIONS] -- COMMAND [ARG]...")]
    Resources(McpClientArgs),
    /// Read a resource by its URI
    #[command(after_help = TARGETS, override_usage = "thruway mcp read [OPTIONS] URL URI\n       thruway mcp read [OPTIONS] URI -- COMMAND [ARG]...")]
    Read(McpClientArgs),
    /// List the prompts of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp prompts [OPTIONS] URL\n       thruway mcp prompts [OPTIONS] -- COMMAND [ARG]...")]
    Prompts(McpClientArgs),
    /// Get a prompt
    ///
    /// Pass the name of the prompt, then `key=value` for each argument.
    #[command(after_help = TARGETS, override_usage = "thruway mcp get [OPTIONS] URL PROMPT [KEY=VALUE]...\n       thruway mcp get [OPTIONS] PROMPT [KEY=VALUE]... -- COMMAND [ARG]...")]
    Get(McpClientArgs),
    /// Suggest values for an argument of a prompt or of a resource template
    ///
    /// Pass the name of the prompt or the URI of the template, then `key=value`. KEY is the argument to
    /// complete, and VALUE is the text to complete. If you know the values of other arguments, add a
    /// `key=value` pair for each of these arguments.
    #[command(after_help = TARGETS, override_usage = "thruway mcp complete [OPTIONS] URL PROMPT|TEMPLATE KEY=VALUE [KEY=VALUE]...\n       thruway mcp complete [OPTIONS] PROMPT|TEMPLATE KEY=VALUE [KEY=VALUE]... -- COMMAND [ARG]...")]
    Complete(McpClientArgs),
    /// Print a line for each change of the tools, prompts or resources of a server
    ///
    /// The command prints a line when the list of tools, prompts or resources changes. If you pass URIs of
    /// resources, the command also prints a line when one of these resources changes. The command exits when
    /// the server ends the subscription, or after `--count` changes.
    #[command(after_help = TARGETS, override_usage = "thruway mcp listen [OPTIONS] URL [URI]...\n       thruway mcp listen [OPTIONS] [URI]... -- COMMAND [ARG]...")]
    Listen(McpClientArgs),
    /// Show the state of tasks
    ///
    /// Pass the ids of the tasks. `call --no-wait` starts a task and prints the id of the task. Without ids,
    /// the command shows all tasks, which only MCP revision 2025-11-25 supports.
    #[command(after_help = TARGETS, override_usage = "thruway mcp tasks [OPTIONS] URL [ID]...\n       thruway mcp tasks [OPTIONS] [ID]... -- COMMAND [ARG]...")]
    Tasks(McpClientArgs),
    #[command(flatten)]
    Author(thruway_mcp_dev::AuthorCommand),
    Bridge(Box<McpBridgeArgs>),
    Federate(Box<McpFederateArgs>),
}

/// Subcommand of `thruway mcp` that sends requests to a server.
#[derive(Clone, Copy)]
pub(crate) enum McpClientCommand {
    Discover,
    Inspect,
    Ping,
    Tools,
    Call,
    Resources,
    Read,
    Prompts,
    Get,
    Complete,
    Listen,
    Tasks,
}

#[derive(clap::Args)]
pub(crate) struct McpClientArgs {
    /// URL of the server, then the arguments of the subcommand, such as the name of a tool. If a COMMAND
    /// follows `--`, omit the URL
    #[arg(value_name = "URL|WORD")]
    pub(crate) words: Vec<String>,
    /// Command that starts the server: a program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// MCP revisions to use: `modern` (2026-07-28 and later), `legacy` (2025-11-25 and earlier), one revision
    /// such as `2025-11-25`, or `auto` to detect the revision of the server
    #[arg(long, default_value = "auto", value_parser = parse_era)]
    pub(crate) era: EraChoice,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: McpOutput,
    /// Maximum time to wait for a response; each progress report from the server restarts this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = thruway_bench::parse_pause)]
    pub(crate) timeout: Duration,
    /// `call`: arguments of the tool as a JSON object, instead of `key=value`
    #[arg(long, value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// Print each MCP message to the standard error, with the time since the start of the command
    #[arg(long)]
    pub(crate) trace: bool,
    /// Save images, audio and other binary content of responses to files in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tasks: McpTaskArgs,
    /// `listen`: exit after this number of changes
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<usize>,
    /// Send this header, written as `Name: value`, with each request to a URL; may be repeated. Other users of
    /// this machine can see the arguments of a command, so pass a token with `--bearer @FILE`
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    #[command(flatten)]
    pub(crate) login: McpLoginArgs,
}

/// Options for servers that require a token.
#[derive(clap::Args)]
#[command(next_help_heading = "Login")]
pub(crate) struct McpLoginArgs {
    /// Bearer token to send instead of logging in; `@FILE` reads the token from a file
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["login", "client_id"])]
    pub(crate) bearer: Option<String>,
    /// If the server requires a login, open a browser, even if the command does not run in a terminal
    #[arg(long)]
    pub(crate) login: bool,
    /// OAuth client id, or the `https` URL of a document that describes the client
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// OAuth client secret from the authorization server in `--issuer`; `@FILE` reads the secret from a file
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// Get a token for the client itself, without a user (OAuth client credentials)
    #[arg(long, requires = "client_secret", conflicts_with = "login")]
    pub(crate) client_credentials: bool,
    /// URL of the authorization server that issued `--client-id`. The client secret is sent only to this
    /// server, so `--client-secret` requires this option
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// OAuth scope to request in addition to the scopes that the server requires; may be repeated
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Port of the redirect URI, for authorization servers that require a fixed port [default: any free port]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub(crate) callback_port: u16,
}

/// Options for tasks.
#[derive(clap::Args)]
pub(crate) struct McpTaskArgs {
    /// `call`: if the server starts a task, print the task and do not wait for its result
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// `tasks`: wait for the tasks to end, and print their results
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) wait: bool,
    /// `tasks`: cancel the tasks
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// Format of the output.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum McpOutput {
    /// Tables and text for people
    Text,
    /// JSON for programs. A list is one document, even if the server sends the list in several pages. The
    /// JSON contains only members that the MCP schema defines
    Json,
}

/// Make an MCP server available over stdio, or over HTTP with `--listen`
///
/// Pass the URL of the MCP server, or pass a command after `--` that starts the MCP server. The client and
/// the server may use different MCP revisions. By default, a client that supports elicitation, sampling or
/// roots gets a separate server process for each session. If such a client uses no sessions, each of its
/// running calls gets a separate server process. All other clients share one server process.
#[derive(clap::Args)]
#[command(after_help = BRIDGES)]
pub(crate) struct McpBridgeArgs {
    /// URL of the server. If a COMMAND follows `--`, omit the URL
    #[arg(value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    pub(crate) url: Option<String>,
    /// Command that starts the server: a program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "McpLoginArgs")]
    pub(crate) command: Vec<String>,
    /// Serve HTTP at this address, `IP:PORT` or `unix:PATH`, instead of using the standard input and output;
    /// may be repeated
    ///
    /// The bridge starts even if the server at the URL is unreachable. The bridge then tries to connect until
    /// an attempt succeeds. Until then, clients get status 503.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads of the bridge; more threads do not make a single server process faster
    #[arg(long, value_name = "N", default_value = "1", requires = "listen", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Also accept requests with this host in the headers `Host` and `Origin`. HOST is a name or an address
    /// without a port. May be repeated
    #[arg(long, value_name = "HOST", requires = "listen", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    /// Header `Name: value` to add to each request that the bridge sends to the server; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", requires = "url")]
    pub(crate) header: Vec<String>,
    /// MCP revisions between the bridge and the server: `modern` (2026-07-28 and later), `legacy` (2025-11-25
    /// and earlier), or one revision such as `2025-11-25`. With `auto`, the bridge uses the era of each
    /// client (modern or legacy) if the server supports this era
    #[arg(long, default_value = "auto", value_parser = parse_era)]
    pub(crate) era: EraChoice,
    /// Maximum time to wait for the result of a call; each progress report from the server restarts this time
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = thruway_bench::parse_pause)]
    pub(crate) timeout: Duration,
    /// Start a separate server process for each session. By default, only sessions of clients that support
    /// elicitation, sampling or roots get a separate server process
    #[arg(long)]
    pub(crate) server_per_session: bool,
    /// Use the shared server process for all subscriptions. By default, a subscription of a client that
    /// supports elicitation, sampling or roots occupies a separate server process
    #[arg(long)]
    pub(crate) share_subscriptions: bool,
    /// Maximum number of separate server processes. A separate server process serves one session or one call
    /// at a time. If sessions and subscriptions occupy all separate server processes, the bridge rejects
    /// further sessions and calls. One client on another machine can use at most half of the separate server
    /// processes
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) servers_max: u16,
    /// End a session that has not been used for this time. Also end a separate server process that has not
    /// been used for this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = thruway_bench::parse_pause)]
    pub(crate) session_idle: Duration,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
    #[command(flatten)]
    pub(crate) login: McpLoginArgs,
}

/// Offer the tools of several MCP servers over stdio, or over HTTP with `--listen`
///
/// Pass `NAME=URL` for each server with a URL, and `NAME=PROGRAM` with its arguments after `--` for a server
/// that the command starts. Clients use the tools, the prompts and the resources of all servers. If a server
/// is unavailable, clients can use the other servers. The config file of `thruway serve` has more options:
/// see its section `mcp`.
#[derive(clap::Args)]
#[command(after_help = FEDERATIONS, override_usage = "thruway mcp federate [OPTIONS] [NAME=URL]... [-- NAME=PROGRAM [ARG]... [-- NAME=PROGRAM [ARG]...]...]")]
pub(crate) struct McpFederateArgs {
    /// Name and URL of a server; may be repeated. A name has 1 to 24 lowercase letters, digits and `-`
    #[arg(value_name = "NAME=URL", required_unless_present = "command")]
    pub(crate) urls: Vec<String>,
    /// Name, program and arguments of a server. A further `--` before `NAME=PROGRAM` begins the next server
    #[arg(last = true, value_name = "NAME=PROGRAM")]
    pub(crate) command: Vec<String>,
    /// Serve HTTP at this address, `IP:PORT` or `unix:PATH`, instead of using stdio; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads
    #[arg(long, value_name = "N", default_value = "1", requires = "listen", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Also accept requests with this host in the headers `Host` and `Origin`. HOST is a name or an address
    /// without a port. May be repeated
    #[arg(long, value_name = "HOST", requires = "listen", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    /// Header `NAME=Header: value` to add to each request to the server NAME; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", requires = "urls")]
    pub(crate) header: Vec<String>,
    /// Names of tools and prompts
    #[arg(long, value_enum, default_value = "prefixed")]
    pub(crate) names: McpNames,
    /// Server to prefer if several servers have a tool with the same plain name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) prefer: Vec<String>,
    /// Maximum time for which a list waits for servers that are not connected
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = thruway_bench::parse_pause)]
    pub(crate) list_wait: Duration,
    /// End a session that has not been used for this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = thruway_bench::parse_pause)]
    pub(crate) session_idle: Duration,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
}

/// Names of tools and prompts.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum McpNames {
    /// `SERVER__NAME`
    Prefixed,
    /// `NAME`. If several servers have a tool of this name, clients get none, unless `--prefer` selects one
    Plain,
}

/// Options that control which clients may connect.
#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct McpAccessArgs {
    /// Accept clients on other machines; requires `--token-file` or `--client-ca`
    ///
    /// Without `--allow-remote`, the server listens only on loopback addresses and Unix sockets. If clients
    /// use a URL such as `https://mcp.example/mcp`, also pass `--allow-host mcp.example`.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Require a bearer token from each client. FILE contains the valid tokens, one per line
    ///
    /// A client sends its token as `Authorization: Bearer TOKEN`. Clients with different tokens cannot use
    /// each other's sessions and tasks. A token needs at least 16 characters; `openssl rand -base64 32`
    /// prints a suitable token. Only the user that runs this process should be able to read the file (mode
    /// 0600). The server reads the token file only once, at startup. Without TLS, tokens cross the network
    /// unencrypted.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Serve HTTPS with the certificate chain in this file (PEM); the server reloads the file when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Require client certificates that chain to a root certificate in this file (PEM)
    ///
    /// The server does not use certificates to distinguish clients. A client that knows the id of another
    /// client's session or task can use this session or task. A bridge may use one child process for several
    /// clients in turn, and this process may still have data of earlier clients in memory. Use `--token-file`
    /// to separate clients from each other.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

impl McpAccessArgs {
    /// Returns `true` if at least one access option is set.
    pub(crate) const fn is_given(&self) -> bool {
        self.allow_remote || self.token_file.is_some() || self.tls_cert.is_some() || self.client_ca.is_some()
    }
}

/// Limits of an MCP server.
#[derive(clap::Args)]
#[expect(clippy::struct_field_names, reason = "each field has the name of its option")]
pub(crate) struct McpServerLimits {
    /// Maximum size of a message from a client, in bytes or with a unit such as `512KiB` or `16MiB`. The
    /// server answers a larger message with an error. The server may buffer one message of this size for each
    /// connection
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_message_size)]
    pub(crate) message_max: usize,
    /// Maximum total size of all requests in progress, in the format of `--message-max`. Above the maximum,
    /// the server rejects a new request (over HTTP: with status 503). One client on another machine can use
    /// at most half of the maximum. Requests smaller than 4 KiB do not count. A second limit of the same size
    /// applies to the events that the server stores for clients that reconnect. Above this limit, the server
    /// stores no further events. If the value is below `--message-max`, the limit for requests is
    /// `--message-max`
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_in_flight_size)]
    pub(crate) in_flight_max: usize,
    /// Maximum number of sessions over HTTP. At the maximum, the server ends an idle session for each new
    /// session. If all sessions are in use, a request for a new session gets status 503
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) sessions_max: u32,
    /// Maximum number of sessions for each token. At the maximum, the server ends an idle session of the same
    /// token for each new session
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) sessions_per_principal_max: u32,
    /// Maximum number of sessions from each IPv4 address, or from each IPv6 network of 64 bits. Sessions of
    /// clients with a token do not count. Behind a proxy, all clients appear to have the address of the proxy
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) sessions_per_address_max: u32,
}

fn parse_era(text: &str) -> Result<EraChoice, String> {
    match text {
        "auto" => Ok(EraChoice::Auto),
        "modern" => Ok(EraChoice::Modern),
        "legacy" => Ok(EraChoice::Legacy),
        revision => revision.parse().map(EraChoice::Revision).map_err(|_| {
            let known = Revision::ALL.map(Revision::as_str).join(", ");
            format!("unknown era, expected `auto`, `modern`, `legacy` or a revision: {known}")
        }),
    }
}

/// Run a demo MCP server with tools, resources and a prompt
///
/// The path of the endpoint is `/mcp`. The server accepts only clients on this machine, unless you pass
/// `--allow-remote` and a credential. The `Host` header of a request must name `localhost`, `127.0.0.1`,
/// `[::1]` or a host of `--allow-host`. The same rule applies to the `Origin` header, if present. This check
/// stops web pages in a browser (DNS rebinding). It does not stop other programs, because they can send any
/// header.
#[derive(clap::Args)]
pub(crate) struct McpServeArgs {
    /// Use the standard input and output instead of HTTP, for clients that start the server as a child
    /// process
    #[arg(long, conflicts_with_all = ["listen", "workers", "allow_host", "McpAccessArgs"])]
    pub(crate) stdio: bool,
    /// Address to listen on: `IP:PORT` or `unix:PATH`; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Also accept requests with this host in the headers `Host` and `Origin`. HOST is a name or an address
    /// without a port. May be repeated
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
}

/// Parses a host in the syntax of the `Host` header, without a port.
fn parse_host(text: &str) -> Result<String, &'static str> {
    match Authority::parse(text.as_bytes()) {
        Ok(authority) if !text.is_empty() && authority.host() == text => Ok(text.to_owned()),
        _ => Err("expected a name or an address without a port, such as `mcp.example` or `[2001:db8::1]`"),
    }
}

/// Run the server or gateway that a config file describes. Without a config file, run a test server
#[derive(Clone, clap::Args)]
#[command(after_help = SIGNALS)]
pub(crate) struct ServeArgs {
    /// Config file; without a config file, a test server runs on 127.0.0.1:8080
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on, `IP:PORT` or `unix:PATH`, instead of the addresses in the config; may be
    /// repeated. If the config has one listener, its settings, such as `tls`, apply to each new address. If
    /// the config has several listeners and one of them has settings, this option is an error
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
}

/// Check a config file without starting the server
///
/// If the config has MCP endpoints, the command also connects to their servers, which starts the servers with
/// `command`. It prints the tools of each endpoint, and warns about servers that do not respond.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Config file
    #[arg(required_unless_present = "schema")]
    pub(crate) config: Option<PathBuf>,
    /// Show which route handles a request, and why. REQUEST is a method and a URI, such as `GET
    /// http://example.com/path`
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,
    /// Header `Name: value` of the request in `--explain`; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", requires = "explain")]
    pub(crate) header: Vec<String>,
    /// Do not resolve the host names of upstream servers, and do not start or connect to MCP servers
    #[arg(long, conflicts_with = "schema")]
    pub(crate) offline: bool,
    /// Print the JSON Schema of config files, for use in editors, and exit without checking a config
    #[arg(long, conflicts_with_all = ["config", "explain"])]
    pub(crate) schema: bool,
}

/// Print shell completions
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// Shell for which to print completions
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `thruway man`.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Directory for the man pages; the command creates the directory if it does not exist
    pub(crate) directory: PathBuf,
}

const COMPLETIONS: &str = "\
Installation:
  bash  thruway completions bash > ~/.local/share/bash-completion/completions/thruway
  zsh   thruway completions zsh > \"${fpath[1]}/_thruway\"
  fish  thruway completions fish > ~/.config/fish/completions/thruway.fish";

const TARGETS: &str = "\
Servers:
  thruway mcp call http://127.0.0.1:8080/mcp add a=1 b=2
  thruway mcp call add a=1 b=2 -- thruway mcp serve --stdio

Logins:
  If a server requires a token, the command opens a browser in which you log in. The command stores
  the token in $XDG_STATE_HOME/thruway/mcp_tokens.json. The default of XDG_STATE_HOME is
  ~/.local/state. If the command does not run in a terminal, pass --login, --bearer or
  --client-credentials.

Exit codes:
  0  The server responded
  1  The server refused the request, or the tool or the task failed
  2  The server cannot be reached, or the arguments are invalid";

const BRIDGES: &str = "\
Bridges:
  thruway mcp bridge https://mcp.example/mcp
      Serves one client over stdio, and forwards its messages to the server at the URL
  thruway mcp bridge https://mcp.example/mcp --login
      The same for a server that requires a login. The bridge stores the token
  thruway mcp bridge --listen 127.0.0.1:8080 -- npx some-server --stdio
      Serves an MCP endpoint at `/mcp`, and forwards messages to a child process. Clients with MCP
      revision 2024-11-05 use the path `/sse`
  thruway mcp bridge --listen 0.0.0.0:8443 --allow-remote --allow-host mcp.example \\
      --token-file tokens --tls-cert chain.pem --tls-key key.pem -- npx some-server --stdio
      Serves an MCP endpoint with TLS. Each client must send a token from the file `tokens`

Exit codes:
  0  The client closed the input of the bridge, or all connections ended after a signal
  1  Some connections were cut off, or the client stopped reading
  2  The server cannot be reached, or the arguments or an address are invalid";

const FEDERATIONS: &str = "\
Federations:
  thruway mcp federate docs=https://docs.example/mcp -- files=npx -y @modelcontextprotocol/server-filesystem .
      Serves one client over stdio. The tools are `docs__NAME` and `files__NAME`
  thruway mcp federate --listen 127.0.0.1:8080 one=http://127.0.0.1:8081/mcp two=http://127.0.0.1:8082/mcp
      Serves an MCP endpoint at `/mcp`. Clients with MCP revision 2024-11-05 use the path `/sse`
  thruway mcp federate -H 'hub=Authorization: Bearer TOKEN' hub=https://hub.example/mcp -- one=a -- two=b
      Adds a header to each request to `hub`

Exit codes:
  0  The client closed the input, or all connections ended after a signal
  1  Some connections were cut off, or the client stopped reading
  2  The arguments or an address are invalid";

const ENVIRONMENT: &str = "\
Environment:
  THRUWAY_LOG  Log level, such as `debug` or `warn,thruway_server=trace` [default: info]. The
               default level of the HTTP/2 library `h2` is `error`. To change this level, name `h2`,
               as in `debug,h2=debug`";

const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  Shut down gracefully (drain): accept no new requests, complete the accepted
                   requests, exit. A second signal exits at once
  SIGHUP           Reload the config. If the new config is invalid, keep the previous config
  SIGUSR1          Reopen the access log, for example after `logrotate` has renamed the file

Exit codes:
  0    All connections ended
  1    Some connections were still open at the end of the drain time, and the server closed them
  2    The arguments, the config or an address are invalid
  143  A second signal arrived";
