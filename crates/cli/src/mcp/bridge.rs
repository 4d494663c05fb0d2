//! `thruway mcp bridge`.

use std::io;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use thruway_mcp_sdk::oauth::OAuthError;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, McpClient, McpClientBuilder, McpClientError, McpClientOptions, McpEndpoint,
    McpServerOptions,
};
use thruway_server::{Router, Server, ServerError, TerminationSignals, Timeouts, raise_descriptor_limit};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::access::Access;
use super::client::login::{self, Login};
use super::connecting::{FirstAttempt, LateBridge};
use super::serve::{exit_code, server_options};
use crate::args::{McpAccessArgs, McpBridgeArgs};
use crate::config::{Failure, parse_headers};

/// Runs a bridge to another MCP server.
pub(crate) fn run(args: &McpBridgeArgs) -> Result<ExitCode, Failure> {
    if !args.listen.is_empty() {
        return serve_http(args);
    }
    refuse_access_options(&args.access)?;
    serve_stdio(args)
}

/// Refuses the options for access, if the command uses the standard input and output.
pub(super) fn refuse_access_options(access: &McpAccessArgs) -> Result<(), Failure> {
    if !access.is_given() {
        return Ok(());
    }
    Err(Failure::new(
        "the options for access need `--listen`: without it, only the program that started the bridge can use it",
    )
    .with_hint("pass `--listen ADDR` to serve HTTP"))
}

fn serve_stdio(args: &McpBridgeArgs) -> Result<ExitCode, Failure> {
    let target = Arc::new(Target::of(args)?);
    runtime()?.block_on(async {
        let bridge = Bridge::connect(options(args), connector(target)).await.map_err(failure)?;
        let outcome = bridge.serve_standard_streams().await;
        bridge.close().await;
        Ok(exit_code_of_client(outcome))
    })
}

/// Returns the exit code for the end of a client of the standard input and output.
pub(super) fn exit_code_of_client(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::warn!("the client stopped reading the standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves clients over HTTP. First opens and closes a connection to the server behind the bridge, to check
/// that the server is reachable. The worker threads later open separate connections to the server.
fn serve_http(args: &McpBridgeArgs) -> Result<ExitCode, Failure> {
    let access = Access::of(&args.access)?;
    let listeners = access.listeners(&args.listen)?;
    let target = Arc::new(Target::of(args)?);
    raise_descriptor_limit();
    let mut signals = TerminationSignals::take_over().map_err(ServerError::from)?;
    let runtime = Arc::new(runtime()?);
    let bridge = LateBridge::default();
    let server = Server::new(bridge.mount(Router::new())).workers(args.workers.into());
    let protect = {
        let (access, hosts) = (access.clone(), args.allow_host.clone());
        move |endpoint| access.protect(hosts.iter().fold(endpoint, McpEndpoint::allow_host))
    };
    let connecting = connect_first(&runtime, &bridge, args, target, protect)?;
    let server = access.start(server, listeners)?;
    let abort = connecting.abort_handle();
    let attempts = {
        let runtime = runtime.clone();
        // At shutdown, `abort` cancels the task `connecting`.
        thread::spawn(move || drop(runtime.block_on(connecting)))
    };
    signals.wait();
    tracing::info!("draining");
    exit_at_second_signal(signals);
    // The workers close the connections to the servers behind the bridge, so they end after the bridge.
    let hold = server.drain_and_hold();
    abort.abort();
    let _ = attempts.join();
    if let Some(bridge) = bridge.bridge() {
        let within = Timeouts::default().drain.saturating_sub(CLOSE_TIME);
        runtime.block_on(bridge.drain(within));
    }
    drop(hold);
    Ok(exit_code(&server.join()))
}

/// Ends the process at the next signal.
pub(super) fn exit_at_second_signal(mut signals: TerminationSignals) {
    thread::spawn(move || {
        signals.wait();
        std::process::exit(EXIT_AT_ONCE);
    });
}

/// Starts a task that connects `bridge` to its server, and waits for the end of the first attempt. For a
/// server process, the task makes only one attempt, without a time limit. For a URL, the function waits at
/// most [`FIRST_ATTEMPT_TIMEOUT`]. The task then continues with further attempts in the background.
///
/// # Errors
/// Returns an error if the first attempt failed and another attempt would not help.
fn connect_first(
    runtime: &Runtime,
    bridge: &LateBridge,
    args: &McpBridgeArgs,
    target: Arc<Target>,
    protect: impl Fn(McpEndpoint) -> McpEndpoint + Send + Sync + 'static,
) -> Result<JoinHandle<()>, Failure> {
    let (attempt_sender, mut attempt) = watch::channel(FirstAttempt::Running);
    let options = options(args);
    let may_repeat = matches!(*target, Target::Url { .. });
    let connect = move || {
        let (options, connector) = (options.clone(), connector(target.clone()));
        async move {
            let bridge = Bridge::connect(options, connector).await?;
            bridge.close().await;
            Ok(bridge)
        }
    };
    let connecting = runtime.spawn(bridge.clone().connect(connect, may_repeat, protect, attempt_sender));
    let outcome = runtime.block_on(async {
        let over = attempt.wait_for(|attempt| *attempt != FirstAttempt::Running);
        let limit = if may_repeat { FIRST_ATTEMPT_TIMEOUT } else { Duration::MAX };
        timeout(limit, over).await.ok().and_then(Result::ok).map(|attempt| attempt.clone())
    });
    match outcome {
        Some(FirstAttempt::Failed(error)) => Err(failure(error)),
        _ => Ok(connecting),
    }
}

fn options(args: &McpBridgeArgs) -> BridgeOptions {
    BridgeOptions {
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
    }
}

fn connector(
    target: Arc<Target>,
) -> impl Fn(McpClientBuilder) -> Result<McpClient, McpClientError> + Send + Sync + 'static {
    move |builder| target.connect(builder)
}

fn failure(error: McpClientError) -> Failure {
    match error {
        McpClientError::Authorization(OAuthError::LoginFailed(io::ErrorKind::Unsupported)) => {
            login::no_terminal()
        }
        error => Failure::new(error),
    }
}

/// The server behind the bridge: a URL or a command.
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
                // If `-H` contains an `Authorization` header, no login is necessary.
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

pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(format!("cannot start the event loop: {error}")))
}

/// Maximum time to wait for the first attempt to connect to a URL. After this time, the listeners start, and
/// the bridge continues its attempts.
const FIRST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Part of the drain time in which the bridge closes the connections to its servers.
pub(super) const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Exit code after a second signal: 128 plus 15, the number of SIGTERM. Shells use the same exit code.
const EXIT_AT_ONCE: i32 = 143;
