//! What can be typed after `thruway`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use thruway_mcp_sdk::{EraChoice, Revision};
use thruway_server::Authority;

use crate::bench::BenchCommand;

/// A fast HTTP/1.1 server and gateway, and MCP servers on it
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
    /// Print what completes these commands in a shell
    Completions(CompletionsArgs),
    /// Write man pages into a directory
    Man(ManArgs),
    /// Work with the Model Context Protocol
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Load servers and measure what they do
    #[command(subcommand)]
    Bench(Box<BenchCommand>),
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    Serve(McpServeArgs),
    /// Say what a server is and can do
    #[command(after_help = TARGETS, override_usage = "thruway mcp discover [OPTIONS] URL\n       thruway mcp discover [OPTIONS] -- COMMAND [ARG]...")]
    Discover(McpClientArgs),
    /// Say nothing if there is a server, and an error otherwise
    #[command(after_help = TARGETS, override_usage = "thruway mcp ping [OPTIONS] URL\n       thruway mcp ping [OPTIONS] -- COMMAND [ARG]...")]
    Ping(McpClientArgs),
    /// List the tools of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp tools [OPTIONS] URL\n       thruway mcp tools [OPTIONS] -- COMMAND [ARG]...")]
    Tools(McpClientArgs),
    /// Call a tool: its name, and `key=value` for each argument, typed as its schema says
    #[command(after_help = TARGETS, override_usage = "thruway mcp call [OPTIONS] URL TOOL [KEY=VALUE]...\n       thruway mcp call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND [ARG]...")]
    Call(McpClientArgs),
    /// List the resources of a server, and their templates
    #[command(after_help = TARGETS, override_usage = "thruway mcp resources [OPTIONS] URL\n       thruway mcp resources [OPTIONS] -- COMMAND [ARG]...")]
    Resources(McpClientArgs),
    /// Read the resource with a URI
    #[command(after_help = TARGETS, override_usage = "thruway mcp read [OPTIONS] URL URI\n       thruway mcp read [OPTIONS] URI -- COMMAND [ARG]...")]
    Read(McpClientArgs),
    /// List the prompts of a server
    #[command(after_help = TARGETS, override_usage = "thruway mcp prompts [OPTIONS] URL\n       thruway mcp prompts [OPTIONS] -- COMMAND [ARG]...")]
    Prompts(McpClientArgs),
    /// Get a prompt: its name, and `key=value` for each argument
    #[command(after_help = TARGETS, override_usage = "thruway mcp get [OPTIONS] URL PROMPT [KEY=VALUE]...\n       thruway mcp get [OPTIONS] PROMPT [KEY=VALUE]... -- COMMAND [ARG]...")]
    Get(McpClientArgs),
    /// Complete an argument of a prompt, or of the template of a resource: its name or URI, and `key=value`
    ///
    /// Further `key=value` are arguments that are known already.
    #[command(after_help = TARGETS, override_usage = "thruway mcp complete [OPTIONS] URL PROMPT|TEMPLATE KEY=VALUE [KEY=VALUE]...\n       thruway mcp complete [OPTIONS] PROMPT|TEMPLATE KEY=VALUE [KEY=VALUE]... -- COMMAND [ARG]...")]
    Complete(McpClientArgs),
    /// Tell of changes of lists, and of the resources with these URIs, until the server ends
    #[command(after_help = TARGETS, override_usage = "thruway mcp listen [OPTIONS] URL [URI]...\n       thruway mcp listen [OPTIONS] [URI]... -- COMMAND [ARG]...")]
    Listen(McpClientArgs),
    /// Say how the tasks with these ids stand, or all that there are (2025-11-25); `call --no-wait` begins
    /// such
    #[command(after_help = TARGETS, override_usage = "thruway mcp tasks [OPTIONS] URL [ID]...\n       thruway mcp tasks [OPTIONS] [ID]... -- COMMAND [ARG]...")]
    Tasks(McpClientArgs),
    Bridge(Box<McpBridgeArgs>),
}

/// What is asked of a server.
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
    /// The URL of the server, unless a command follows, and then what the command above is about
    #[arg(value_name = "URL|WORD")]
    pub(crate) words: Vec<String>,
    /// The server to start, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// How to speak: `auto`, `modern`, `legacy`, or a revision such as `2025-11-25`
    #[arg(long, default_value = "auto", value_parser = parse_era)]
    pub(crate) era: EraChoice,
    /// How to print what the server answers
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: McpOutput,
    /// How long to wait for an answer, or after the last report of its progress
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// The arguments of a tool as a JSON object, instead of `key=value`
    #[arg(long, value_name = "OBJECT")]
    pub(crate) json: Option<String>,
    /// Print each message with its timing, on the standard error
    #[arg(long)]
    pub(crate) trace: bool,
    /// Write images, audio and other binary content into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tasks: McpTaskArgs,
    /// `listen`: end after so many changes
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<usize>,
    #[command(flatten)]
    pub(crate) login: McpLoginArgs,
}

/// What servers are told that want to know who asks.
#[derive(clap::Args)]
#[command(next_help_heading = "Login")]
pub(crate) struct McpLoginArgs {
    /// A token to send, instead of getting one; `@FILE` is what stands in the file
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["login", "client_id"])]
    pub(crate) bearer: Option<String>,
    /// Let a person log in when the server asks for it, also if there is no terminal to print on
    #[arg(long)]
    pub(crate) login: bool,
    /// Who the client is to the authorization server: an id that it has given, or a URL of `https` that
    /// describes the client
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Secret of the client, which `--issuer` gave it; `@FILE` reads it from a file
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// Log in as the client itself, without a person
    #[arg(long, requires = "client_secret", conflicts_with = "login")]
    pub(crate) client_credentials: bool,
    /// Authorization server that knows the client, and the only one that receives its secret; required with a
    /// secret
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// Ask for this scope too; may be given several times
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Let the person come back to this port, for authorization servers that must know it [default: any]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub(crate) callback_port: u16,
}

/// What becomes of tasks.
#[derive(clap::Args)]
pub(crate) struct McpTaskArgs {
    /// `call`: do not wait for a task that the server makes of the call
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// `tasks`: wait for the results
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) wait: bool,
    /// `tasks`: give them up
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// How to print what a server answers.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum McpOutput {
    /// For people
    Text,
    /// For programs: results as JSON, all pages of a list together, without what the schema of MCP does not
    /// know
    Json,
}

/// Serve what another server serves: over stdio, or over HTTP with `--listen`
///
/// The other server is at a URL, or started by a command after `--`. Clients and servers of every revision
/// understand each other. Clients that can be asked have a server for themselves, for a session or a call;
/// the others share one.
#[derive(clap::Args)]
#[command(after_help = BRIDGES)]
pub(crate) struct McpBridgeArgs {
    /// The URL of the server, unless a command follows
    #[arg(value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    pub(crate) url: Option<String>,
    /// The server to start, with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "McpLoginArgs")]
    pub(crate) command: Vec<String>,
    /// Listen here, `IP:PORT` or `unix:PATH`, instead of serving the standard input and output; may be given
    /// several times
    ///
    /// The bridge starts although the server at the URL is not up yet, and tries again until it is.
    /// Meanwhile, clients get 503.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Worker threads; a server that is one process is not faster with more
    #[arg(long, value_name = "N", default_value = "1", requires = "listen", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Answer requests to this host too, a name or an address without a port; may be given several times
    #[arg(long, value_name = "HOST", requires = "listen", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    /// A header of each request to the server: `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER", requires = "url")]
    pub(crate) header: Vec<String>,
    /// Era to use with the server: `auto` (that of each client, if the server speaks it), `modern`, `legacy`,
    /// or a revision such as `2025-11-25`
    #[arg(long, default_value = "auto", value_parser = parse_era)]
    pub(crate) era: EraChoice,
    /// How long a call may take, or go on after the last report of its progress
    #[arg(long, default_value = "5m", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Give each session a server of its own, not only those whose clients can be asked
    #[arg(long)]
    pub(crate) server_per_session: bool,
    /// Let subscriptions share one server, also those of clients that can be asked, each of which keeps a
    /// server for itself otherwise
    #[arg(long)]
    pub(crate) share_subscriptions: bool,
    /// Maximum number of servers that serve only one client each. If sessions and subscriptions keep all
    /// of them, further clients get 503. One caller on another machine gets at most half
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) servers_max: u16,
    /// How long a session is kept that is not used, and a server for one client alone
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) session_idle: Duration,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
    #[command(flatten)]
    pub(crate) login: McpLoginArgs,
}

/// Which clients may connect, and with which credential.
#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct McpAccessArgs {
    /// Accept clients on other machines; needs a credential: `--token-file` or `--client-ca`
    ///
    /// Without it, only loopback addresses and Unix sockets can be listened on. Name the host that clients
    /// use with `--allow-host`.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Ask every client for a bearer token that is in this file, one token a line
    ///
    /// A client sends it as `Authorization: Bearer TOKEN`. Each token is a caller of its own: it cannot use
    /// the sessions and tasks of another. Tokens have at least 16 characters; `openssl rand -base64 32`
    /// prints a good one. Only the user of this process should be able to read the file (mode 0600). The file
    /// is read at the start. Without TLS, tokens cross the network unencrypted.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Serve HTTPS with this certificate chain (PEM), which is read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ask every client for a certificate that a root in this file has issued (PEM)
    ///
    /// All such clients are one caller, whatever their certificates say. They share sessions and tasks if
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
    /// get an error. Each connection can make the server buffer as much
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_message_size)]
    pub(crate) message_max: usize,
    /// Maximum size of all requests together that are being handled, as for `--message-max`. Beyond it, a
    /// request gets an error, over HTTP with status 503. One caller on another machine gets at most half.
    /// Requests smaller than 4 KiB do not count. Events that are kept for clients that come back have the
    /// same maximum, apart from requests; beyond it, they are not kept. A value below `--message-max` counts
    /// as that
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

/// Parses a number of bytes: at least 1 KiB, so that every client can begin, and at most 1 GiB.
fn parse_message_size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).filter(|bytes| (1 << 10..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| {
        "the size must be between 1KiB and 1GiB, such as `65536`, `512KiB` or `16MiB`".to_owned()
    })
}

/// Parses a number of bytes of several messages: at least 1 MiB.
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
            format!("an era is `auto`, `modern`, `legacy` or a revision: {known}")
        }),
    }
}

/// Serve a demo of MCP: tools, resources and a prompt
///
/// The endpoint is at `/mcp`. It listens on this machine only, unless `--allow-remote` and a credential are
/// given. `Host` and
/// `Origin` must be `localhost`, `127.0.0.1`, `[::1]`, or named by `--allow-host`: that stops pages in
/// browsers (DNS rebinding), and no other program.
#[derive(clap::Args)]
pub(crate) struct McpServeArgs {
    /// Serve the standard input and output, for clients that start this themselves
    #[arg(long, conflicts_with_all = ["listen", "workers", "allow_host", "McpAccessArgs"])]
    pub(crate) stdio: bool,
    /// Listen here: `IP:PORT` or `unix:PATH`; may be given several times
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: Vec<String>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Answer requests to this host too, a name or an address without a port; may be given several times
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) access: McpAccessArgs,
    #[command(flatten)]
    pub(crate) limits: McpServerLimits,
}

/// A host as it stands in `Host`, without a port.
fn parse_host(text: &str) -> Result<String, &'static str> {
    match Authority::parse(text.as_bytes()) {
        Ok(authority) if !text.is_empty() && authority.host() == text => Ok(text.to_owned()),
        _ => Err("a host is a name or an address without a port, such as `mcp.example` or `[2001:db8::1]`"),
    }
}

/// Serve what a config says, or a demo without one
#[derive(Clone, clap::Args)]
#[command(after_help = SIGNALS)]
pub(crate) struct ServeArgs {
    /// What to serve; without it, a demo on 127.0.0.1:8080
    pub(crate) config: Option<PathBuf>,
    /// Listen here instead: `IP:PORT` or `unix:PATH`; may be given several times. The settings of the
    /// config's listener, such as `tls`, hold at each address; several listeners with settings cannot be
    /// replaced
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
}

/// Check a config without serving it
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// The config to check
    #[arg(required_unless_present = "schema")]
    pub(crate) config: Option<PathBuf>,
    /// Say which route takes this request, and why: `METHOD URI`, as `GET http://example.com/path`
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,
    /// A header of the request to explain: `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER", requires = "explain")]
    pub(crate) header: Vec<String>,
    /// Do not ask whether names of servers can be resolved
    #[arg(long, conflicts_with = "schema")]
    pub(crate) offline: bool,
    /// Print the JSON Schema of configs instead, for editors
    #[arg(long, conflicts_with_all = ["config", "explain"])]
    pub(crate) schema: bool,
}

/// For which shell.
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Where man pages go.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The directory, which is made if it is not there
    pub(crate) directory: PathBuf,
}

const COMPLETIONS: &str = "\
Where they go:
  bash  thruway completions bash > ~/.local/share/bash-completion/completions/thruway
  zsh   thruway completions zsh > \"${fpath[1]}/_thruway\"
  fish  thruway completions fish > ~/.config/fish/completions/thruway.fish";

const TARGETS: &str = "\
Servers:
  thruway mcp call http://127.0.0.1:8080/mcp add a=1 b=2
  thruway mcp call add a=1 b=2 -- thruway mcp serve --stdio

Logins:
  A server that asks for it is logged in to with a browser; the token is kept in $XDG_STATE_HOME/thruway/mcp_tokens.json
  (~/.local/state). Where there is no terminal, --login allows it, --bearer and --client-credentials do without.

Exit codes:
  0  The server has answered
  1  The server refuses, or the tool or the task has failed
  2  There is no such server, or the arguments cannot be used";

const BRIDGES: &str = "\
Bridges:
  thruway mcp bridge https://mcp.example/mcp
      a server for clients that start theirs, which asks the one at the URL
  thruway mcp bridge https://mcp.example/mcp --login
      the same, where a person has to log in, once: the token is kept
  thruway mcp bridge --listen 127.0.0.1:8080 -- npx some-server --stdio
      an MCP endpoint at `/mcp`, and at `/sse` for clients of 2024-11-05, which asks a child process
  thruway mcp bridge --listen 0.0.0.0:8443 --allow-remote --allow-host mcp.example --token-file tokens \\
      --tls-cert chain.pem --tls-key key.pem -- npx some-server --stdio
      the same for clients on other machines, which send a bearer token

Exit codes:
  0  The client has closed its end, or a signal came and all connections ended by themselves
  1  Some connections were cut off, or the client does not read any more
  2  There is no such server, or the arguments or an address cannot be used";

const ENVIRONMENT: &str = "\
Environment:
  THRUWAY_LOG  What is logged, as `debug` or `warn,thruway_server=trace` [default: info]; of the library for
               HTTP/2 errors only, unless it is named, as `debug,h2=debug`";

const SIGNALS: &str = "\
Signals:
  SIGTERM, SIGINT  Accept nothing more, answer what was accepted, end; at a second one, end at once
  SIGHUP           Read the config again; one that cannot be used changes nothing
  SIGUSR1          Open the access log again, after it was moved away

Exit codes:
  0    All connections ended by themselves
  1    Some were cut off when the time to drain was over
  2    The arguments, the config or an address cannot be used
  143  A second signal came";
