//! Arguments of `thruway`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use thruway_mcp_sdk::{EraChoice, Revision};
use thruway_server::Authority;

use crate::bench::BenchCommand;

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
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Write man pages into a directory
    Man(ManArgs),
    /// Work with the Model Context Protocol
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Load servers and measure them
    #[command(subcommand)]
    Bench(Box<BenchCommand>),
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    Serve(McpServeArgs),
    /// Show the name, revisions and capabilities of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp discover [OPTIONS] URL\n       thruway mcp discover [OPTIONS] -- COMMAND [ARG]...")]
    Discover(McpClientArgs),
    /// Check that a server responds
    #[command(after_help = TARGETS, override_usage = "thruway mcp ping [OPTIONS] URL\n       thruway mcp ping [OPTIONS] -- COMMAND [ARG]...")]
    Ping(McpClientArgs),
    /// List the tools of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp tools [OPTIONS] URL\n       thruway mcp tools [OPTIONS] -- COMMAND [ARG]...")]
    Tools(McpClientArgs),
    /// Call a tool: its name, and `key=value` for each argument, typed as its schema says
    #[command(after_help = TARGETS, override_usage = "thruway mcp call [OPTIONS] URL TOOL [KEY=VALUE]...\n       thruway mcp call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND [ARG]...")]
    Call(McpClientArgs),
    /// List the resources of a server and their templates
    #[command(after_help = TARGETS, override_usage = "thruway mcp resources [OPTIONS] URL\n       thruway mcp resources [OPTIONS] -- COMMAND [ARG]...")]
    Resources(McpClientArgs),
    /// Read a resource by its URI
    #[command(after_help = TARGETS, override_usage = "thruway mcp read [OPTIONS] URL URI\n       thruway mcp read [OPTIONS] URI -- COMMAND [ARG]...")]
    Read(McpClientArgs),
    /// List the prompts of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp prompts [OPTIONS] URL\n       thruway mcp prompts [OPTIONS] -- COMMAND [ARG]...")]
    Prompts(McpClientArgs),
    /// Get a prompt: its name, and `key=value` for each argument
    #[command(after_help = TARGETS, override_usage = "thruway mcp get [OPTIONS] URL PROMPT [KEY=VALUE]...\n       thruway mcp get [OPTIONS] PROMPT [KEY=VALUE]... -- COMMAND [ARG]...")]
    Get(McpClientArgs),
    /// Complete an argument of a prompt or of a resource template: its name or URI, and `key=value`
    ///
    /// Further `key=value` are arguments that are already known.
    #[command(after_help = TARGETS, override_usage = "thruway mcp complete [OPTIONS] URL PROMPT|TEMPLATE KEY=VALUE [KEY=VALUE]...\n       thruway mcp complete [OPTIONS] PROMPT|TEMPLATE KEY=VALUE [KEY=VALUE]... -- COMMAND [ARG]...")]
    Complete(McpClientArgs),
    /// Print changes of lists, and of the resources with these URIs, until the server ends
    #[command(after_help = TARGETS, override_usage = "thruway mcp listen [OPTIONS] URL [URI]...\n       thruway mcp listen [OPTIONS] [URI]... -- COMMAND [ARG]...")]
    Listen(McpClientArgs),
    /// Show the state of the tasks with these ids, or of all tasks (2025-11-25); `call --no-wait` starts a
    /// task
    #[command(after_help = TARGETS, override_usage = "thruway mcp tasks [OPTIONS] URL [ID]...\n       thruway mcp tasks [OPTIONS] [ID]... -- COMMAND [ARG]...")]
    Tasks(McpClientArgs),
    Bridge(Box<McpBridgeArgs>),
}

/// Operation on a server.
#[derive(Clone, Copy)]
pub(crate) enum McpClientCommand {
    Discover,
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
    /// URL of the server, unless a command follows, and the arguments of the operation
    #[arg(value_name = "URL|WORD")]
    pub(crate) words: Vec<String>,
    /// Command that starts the server, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Protocol era: `auto`, `modern`, `legacy`, or a revision such as `2025-11-25`
    #[arg(long, default_value = "auto", value_parser = parse_era)]
    pub(crate) era: EraChoice,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: McpOutput,
    /// Maximum time for a response, or after the last progress report
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Arguments of a tool as a JSON object, instead of `key=value`
    #[arg(long, value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// Print each message with its time on the standard error
    #[arg(long)]
    pub(crate) trace: bool,
    /// Write images, audio and other binary content into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tasks: McpTaskArgs,
    /// `listen`: end after this number of changes
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<usize>,
    #[command(flatten)]
    pub(crate) login: McpLoginArgs,
}

/// Options for servers that require a token.
#[derive(clap::Args)]
#[command(next_help_heading = "Login")]
pub(crate) struct McpLoginArgs {
    /// Token to send, instead of a login; `@FILE` reads it from a file
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["login", "client_id"])]
    pub(crate) bearer: Option<String>,
    /// Let the user log in with a browser if the server requires it, also without a terminal
    #[arg(long)]
    pub(crate) login: bool,
    /// Id of the client at the authorization server, or an `https` URL that describes the client
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Secret of the client, which `--issuer` gave it; `@FILE` reads it from a file
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// Log in as the client itself, without a user
    #[arg(long, requires = "client_secret", conflicts_with = "login")]
    pub(crate) client_credentials: bool,
    /// Authorization server that knows the client, and the only one that receives its secret; required with a
    /// secret
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// Request this scope, too; may be repeated
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Port of the redirect URI, for authorization servers that require a fixed one [default: any]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub(crate) callback_port: u16,
}

/// Options for tasks.
#[derive(clap::Args)]
pub(crate) struct McpTaskArgs {
    /// `call`: do not wait if the server returns a task
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// `tasks`: wait for the results
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) wait: bool,
    /// `tasks`: cancel them
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// Format of the output.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum McpOutput {
    /// Text for people
    Text,
    /// JSON for programs: all pages of a list together, without members that the MCP schema does not have
    Json,
}

/// Serve another MCP server: over stdio, or over HTTP with `--listen`
///
/// The other server is at a URL, or a command after `--` starts it. Clients and servers of all revisions work
/// together. A client that the server can ask (elicitation, sampling, roots) gets a server process of its
/// own, for its session or its call. All other clients share one.
#[derive(clap::Args)]
#[command(after_help = BRIDGES)]
pub(crate) struct McpBridgeArgs {
    /// URL of the server, unless a command follows
    #[arg(value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    pub(crate) url: Option<String>,
    /// Command that starts the server, with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "McpLoginArgs")]
    pub(crate) command: Vec<String>,
    /// Address to listen on, `IP:PORT` or `unix:PATH`, instead of the standard input and output; may be
    /// repeated
    ///
    /// The bridge starts even if the server at the URL is not up yet, and retries until it is. Meanwhile,
    /// clients get 503.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads; more than one does not speed up a single server process
    #[arg(long, value_name = "N", default_value = "1", requires = "listen", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Accept requests for this host, too: a name or an address without a port; may be repeated
    #[arg(long, value_name = "HOST", requires = "listen", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    /// Header of each request to the server: `Name: value`; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", requires = "url")]
    pub(crate) header: Vec<String>,
    /// Protocol era for the server: `auto` (the era of each client, if the server supports it), `modern`,
    /// `legacy`, or a revision such as `2025-11-25`
    #[arg(long, default_value = "auto", value_parser = parse_era)]
    pub(crate) era: EraChoice,
    /// Maximum time for a call, or after its last progress report
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Start a server for each session, not only for clients that the server can ask
    #[arg(long)]
    pub(crate) server_per_session: bool,
    /// Let all subscriptions share one server. By default, a subscription of a client that the server can ask
    /// keeps a server of its own
    #[arg(long)]
    pub(crate) share_subscriptions: bool,
    /// Maximum number of servers that serve only one client each. If sessions and subscriptions keep all of
    /// them, further clients get 503. One caller on another machine gets at most half
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) servers_max: u16,
    /// Time until an unused session ends, and a server that served only one client
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) session_idle: Duration,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
    #[command(flatten)]
    pub(crate) login: McpLoginArgs,
}

/// Options for access.
#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct McpAccessArgs {
    /// Accept clients on other machines; needs a credential: `--token-file` or `--client-ca`
    ///
    /// Without it, the server listens only on loopback addresses and Unix sockets. Name the host that clients
    /// use with `--allow-host`.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Require a bearer token from this file, one token per line
    ///
    /// A client sends it as `Authorization: Bearer TOKEN`. Each token is a caller of its own, without access
    /// to the sessions and tasks of other callers. Tokens have at least 16 characters; `openssl rand -base64
    /// 32` prints a good one. Only the user of this process should be able to read the file (mode 0600). The
    /// file is read at the start. Without TLS, tokens cross the network unencrypted.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Serve HTTPS with this certificate chain (PEM); a changed file is read again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Require a client certificate of a root in this file (PEM)
    ///
    /// All such clients are one caller, whatever their certificates contain. They share sessions and tasks if
    /// they know the ids. A bridge lets a child process that served one client serve another one later, with
    /// all data that it keeps in memory. Use `--token-file` to separate clients from each other.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

impl McpAccessArgs {
    /// `true` if any of the options is given.
    pub(crate) const fn is_given(&self) -> bool {
        self.allow_remote || self.token_file.is_some() || self.tls_cert.is_some() || self.client_ca.is_some()
    }
}

/// Limits of an MCP server.
#[derive(clap::Args)]
#[expect(clippy::struct_field_names, reason = "the names of options: each is a maximum")]
pub(crate) struct McpServerLimits {
    /// Maximum size of a client's message: bytes, or with a unit such as `512KiB` or `16MiB`. Larger messages
    /// get an error. Each connection can make the server buffer this much
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_message_size)]
    pub(crate) message_max: usize,
    /// Maximum size of all requests in flight, as for `--message-max`. Beyond it, a request gets an error,
    /// over HTTP with status 503. One caller on another machine gets at most half. Requests smaller than 4
    /// KiB do not count. Stored events for clients that reconnect have the same maximum, apart from requests;
    /// beyond it, they are not stored. Values below `--message-max` count as `--message-max`
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_in_flight_size)]
    pub(crate) in_flight_max: usize,
    /// Maximum number of sessions over HTTP. Beyond it, a new session ends an idle one; if all are in use, it
    /// gets 503
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) sessions_max: u32,
    /// Maximum number of sessions for each token. Beyond it, a new session ends an idle one of that token
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) sessions_per_principal_max: u32,
    /// Maximum number of sessions of one client address, or of one IPv6 network of 64 bits, for callers
    /// without a token. Behind a proxy, all clients have the address of the proxy
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) sessions_per_address_max: u32,
}

/// Parses a number of bytes between 1 KiB, which every client needs to begin, and 1 GiB.
fn parse_message_size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).filter(|bytes| (1 << 10..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| {
        "the size must be between 1KiB and 1GiB, such as `65536`, `512KiB` or `16MiB`".to_owned()
    })
}

/// Parses a number of bytes for several messages, at least 1 MiB.
fn parse_in_flight_size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).filter(|bytes| *bytes >= 1 << 20);
    bytes.ok_or_else(|| "the size must be at least 1MiB, such as `128MiB` or `1GiB`".to_owned())
}

/// Parses a number of bytes with an optional unit.
fn parse_size(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    number.parse().ok().zip(factor).and_then(|(number, factor): (usize, usize)| number.checked_mul(factor))
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

/// Serve a demo MCP server with tools, resources and a prompt
///
/// The endpoint is `/mcp`. It listens on this machine only, unless `--allow-remote` and a credential are
/// given. `Host` and `Origin` must be `localhost`, `127.0.0.1`, `[::1]`, or named by `--allow-host`. This
/// protects against web pages in browsers (DNS rebinding), and not against other programs.
#[derive(clap::Args)]
pub(crate) struct McpServeArgs {
    /// Serve the standard input and output, for clients that start the server
    #[arg(long, conflicts_with_all = ["listen", "workers", "allow_host", "McpAccessArgs"])]
    pub(crate) stdio: bool,
    /// Address to listen on: `IP:PORT` or `unix:PATH`; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Accept requests for this host, too: a name or an address without a port; may be repeated
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
}

/// Parses a host as `Host` contains it, without a port.
fn parse_host(text: &str) -> Result<String, &'static str> {
    match Authority::parse(text.as_bytes()) {
        Ok(authority) if !text.is_empty() && authority.host() == text => Ok(text.to_owned()),
        _ => Err("expected a name or an address without a port, such as `mcp.example` or `[2001:db8::1]`"),
    }
}

/// Serve a config, or a test server without one
#[derive(Clone, clap::Args)]
#[command(after_help = SIGNALS)]
pub(crate) struct ServeArgs {
    /// Config file; without it, a test server on 127.0.0.1:8080
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on instead: `IP:PORT` or `unix:PATH`; may be repeated. The settings of the config's
    /// listener, such as `tls`, apply to each address; several listeners with settings cannot be replaced
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
}

/// Check a config without serving it
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Config file
    #[arg(required_unless_present = "schema")]
    pub(crate) config: Option<PathBuf>,
    /// Show the route of this request and the reason: `METHOD URI`, such as `GET http://example.com/path`
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,
    /// Header of the request to explain: `Name: value`; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", requires = "explain")]
    pub(crate) header: Vec<String>,
    /// Do not resolve the names of servers
    #[arg(long, conflicts_with = "schema")]
    pub(crate) offline: bool,
    /// Print the JSON Schema of configs for editors instead
    #[arg(long, conflicts_with_all = ["config", "explain"])]
    pub(crate) schema: bool,
}

/// Arguments of `thruway completions`.
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `thruway man`.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Directory, which is created if it does not exist
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
  If a server requires a token, the command opens a browser to log in, and stores the token in
  $XDG_STATE_HOME/thruway/mcp_tokens.json (~/.local/state). Without a terminal, pass --login, --bearer or
  --client-credentials.

Exit codes:
  0  The server responded
  1  The server refused, or the tool or the task failed
  2  The server cannot be reached, or the arguments are invalid";

const BRIDGES: &str = "\
Bridges:
  thruway mcp bridge https://mcp.example/mcp
      a stdio server for clients that start their servers, connected to the server at the URL
  thruway mcp bridge https://mcp.example/mcp --login
      the same for a server that requires a login; the token is stored
  thruway mcp bridge --listen 127.0.0.1:8080 -- npx some-server --stdio
      an MCP endpoint at `/mcp`, and at `/sse` for clients of 2024-11-05, connected to a child process
  thruway mcp bridge --listen 0.0.0.0:8443 --allow-remote --allow-host mcp.example --token-file tokens \\
      --tls-cert chain.pem --tls-key key.pem -- npx some-server --stdio
      the same for clients on other machines, which send a bearer token

Exit codes:
  0  The client closed its side, or all connections ended after a signal
  1  Some connections were cut off, or the client stopped reading
  2  The server cannot be reached, or the arguments or an address are invalid";

const ENVIRONMENT: &str = "\
Environment:
  THRUWAY_LOG  Log level, such as `debug` or `warn,thruway_server=trace` [default: info]. The HTTP/2 library
               logs errors only, unless it is named, as in `debug,h2=debug`";

const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  Drain: accept nothing more, complete accepted requests, exit. A second signal exits at once
  SIGHUP           Reload the config; an invalid config changes nothing
  SIGUSR1          Open the access log again, after it was moved

Exit codes:
  0    All connections ended
  1    Some connections were cut off at the end of the drain time
  2    The arguments, the config or an address are invalid
  143  A second signal arrived";
