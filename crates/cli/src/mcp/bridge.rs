//! `thruway mcp bridge`.

use std::io;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use thruway_mcp_sdk::oauth::OAuthError;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{
    BridgeOptions, McpClient, McpClientBuilder, McpClientError, McpClientOptions, McpEndpoint, McpServer,
    McpServerOptions,
};
use thruway_server::{Router, Server, ServerError, TerminationSignals, Timeouts, raise_descriptor_limit};
use tokio::runtime::Runtime;

use super::client::login::{self, Login};
use super::routes::{PATH, SSE_PATH, mount_endpoint};
use super::serve::server_options;
use crate::args::McpBridgeArgs;
use crate::config::{Failure, parse_listeners};
use crate::headers::parse_headers;
use crate::serve::print_addresses;

/// Serves what another server serves.
pub(crate) fn run(args: &McpBridgeArgs) -> Result<ExitCode, Failure> {
    if args.listen.is_empty() { serve_stdio(args) } else { serve_http(args) }
}

fn serve_stdio(args: &McpBridgeArgs) -> Result<ExitCode, Failure> {
    runtime()?.block_on(async {
        let server = connect(args).await?;
        let outcome = server.serve_standard_streams().await;
        server.close_bridge().await;
        Ok(match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::warn!("the client does not read any more: {error}");
                ExitCode::FAILURE
            }
        })
    })
}

/// The servers behind are started again by the workers, whose affair they are then.
fn serve_http(args: &McpBridgeArgs) -> Result<ExitCode, Failure> {
    raise_descriptor_limit();
    let mut signals = TerminationSignals::take_over().map_err(ServerError::from)?;
    let runtime = runtime()?;
    let bridge = runtime.block_on(async {
        let bridge = connect(args).await?;
        bridge.close_bridge().await;
        Ok::<_, Failure>(bridge)
    })?;
    let endpoint = args.allow_host.iter().fold(bridge.endpoint(), McpEndpoint::allow_host);
    let mut server = Server::new(mount_endpoint(Router::new(), endpoint)).workers(args.workers.into());
    for address in parse_listeners(&args.listen)? {
        server = server.listen_on(address);
    }
    let server = server.start()?;
    print_addresses(&server);
    tracing::info!("the MCP endpoint is at `{PATH}`, and for clients of HTTP+SSE at `{SSE_PATH}`");
    signals.wait();
    tracing::info!("draining");
    thread::spawn(move || {
        signals.wait();
        std::process::exit(EXIT_AT_ONCE);
    });
    server.drain();
    // While the workers are there that talk to the servers behind: they cut off what has not ended in their time.
    let within = Timeouts::default().drain.saturating_sub(SEEING_OUT);
    runtime.block_on(bridge.drain_bridge(within));
    let is_clean = server.join().iter().all(|load| load.connections == 0);
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn connect(args: &McpBridgeArgs) -> Result<McpServer, Failure> {
    let options = BridgeOptions {
        client: McpClientOptions {
            client_info: Implementation::new("thruway", env!("CARGO_PKG_VERSION")),
            era: args.era,
            timeout: args.timeout,
            ..McpClientOptions::default()
        },
        server: McpServerOptions { session_idle: args.session_idle, ..server_options(&args.limits) },
        has_server_per_session: args.server_per_session,
        shares_subscriptions: args.share_subscriptions,
        servers_max: args.servers_max.into(),
        ..BridgeOptions::default()
    };
    let target = Target::of(args)?;
    let bridge = McpServer::bridge(options, move |builder| target.connect(builder)).await;
    bridge.map_err(|error| match error {
        McpClientError::Authorization(OAuthError::LoginFailed(io::ErrorKind::Unsupported)) => {
            login::nobody_is_there()
        }
        error => Failure::new(error),
    })
}

/// Which server is meant.
enum Target {
    Url { url: String, fields: Vec<(String, String)>, login: Option<Login> },
    Command(Vec<String>),
}

impl Target {
    fn of(args: &McpBridgeArgs) -> Result<Self, Failure> {
        match &args.url {
            None => Ok(Self::Command(args.command.clone())),
            Some(url) => {
                let fields = parse_headers(&args.header)?;
                // What is sent is not asked for besides.
                let is_known = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
                let login = if is_known { None } else { Some(Login::of(&args.login)?) };
                Ok(Self::Url { url: url.clone(), fields, login })
            }
        }
    }

    fn connect(&self, builder: McpClientBuilder) -> Result<McpClient, McpClientError> {
        match self {
            Self::Url { url, fields, login } => {
                let fields = fields.iter();
                let builder = fields.fold(builder, |builder, (name, value)| builder.field(name, value));
                Ok(login.iter().fold(builder, |builder, login| login.prepare(builder)).http(url))
            }
            Self::Command(words) => {
                let mut words = words.iter();
                let mut command = Command::new(words.next().map_or("", String::as_str));
                command.args(words);
                builder.command(command)
            }
        }
    }
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(format!("no reactor is to be had: {error}")))
}

/// What is left of the drain for the servers behind to end.
const SEEING_OUT: Duration = Duration::from_secs(5);

/// As a shell has it for SIGTERM.
const EXIT_AT_ONCE: i32 = 143;
