//! A development server: an HTTP endpoint that stays the same while the MCP server behind it restarts, and an
//! inspector page.

mod endpoint;
mod inspector;
mod journal;
mod page;
mod process;
mod processes;
mod restarts;
mod served;
mod supervisor;
mod watch;

use std::io::{Write as _, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::getpid;
use thruway_net::{ListenAddr, unguessable_id};
use thruway_server::{Config, Router, Server, TerminationSignals};
use tokio::sync::{mpsc, oneshot};

use crate::message::CommandError;
use endpoint::DevEndpoint;
use inspector::Inspector;
use journal::Journal;
use processes::kill_groups_of_children;
use served::{MESSAGE_PATH, Served, Version};
pub(crate) use supervisor::DevOptions;
use supervisor::Supervisor;
use watch::SourceWatcher;

/// Runs a development server until SIGINT or SIGTERM. Prints its addresses to the standard output.
///
/// # Errors
/// The address is not a loopback address or is in use, or a directory cannot be watched.
pub(crate) fn run(options: DevOptions) -> Result<ExitCode, CommandError> {
    if !options.listen.ip().to_canonical().is_loopback() {
        return Err(CommandError::new(format!(
            "cannot listen on `{}`: it is not a loopback address",
            options.listen
        ))
        .with_hint("the development server runs any command, so it accepts only clients on this machine"));
    }
    let mut signals = TerminationSignals::take_over()
        .map_err(|error| CommandError::new(format!("cannot handle signals: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CommandError::new(format!("cannot start the event loop: {error}")))?;
    let watcher = SourceWatcher::new(&options.watch)?;
    let (current, journal) = (Served::new(), Journal::new());
    let (restart, restarts) = mpsc::channel(1);
    let token = unguessable_id();
    let inspector = Inspector::new(current.clone(), journal.clone(), &token, restart);
    let mut config = Config::default();
    config.timeouts.drain = DRAIN_TIMEOUT;
    let server = Server::new(router(&current, inspector)).workers(1).config(config);
    let server = server.listen_on(ListenAddr::Tcp(options.listen)).start();
    let server = server.map_err(|error| CommandError::new(error.to_string()))?;
    print_addresses(server.addresses(), &token);
    let (stop, stopped) = oneshot::channel();
    thread::spawn(move || {
        signals.wait();
        // The receiver is gone if the watcher has failed, and the program then ends anyway.
        let _ = stop.send(());
        signals.wait();
        // The exit runs no destructors, which would kill the processes of the server.
        kill_groups_of_children(getpid());
        std::process::exit(EXIT_AT_ONCE);
    });
    let mut supervisor = Supervisor::new(options, current, journal);
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = supervisor.run(watcher, restarts) => outcome,
            _ = stopped => Ok(()),
        }
    });
    tracing::info!("draining");
    // The worker closes its connections to the MCP server, so it ends after the MCP server.
    let hold = server.drain_and_hold();
    runtime.block_on(supervisor.shut_down());
    drop(hold);
    server.join();
    outcome.map_err(|error| CommandError::new(format!("cannot watch source files any longer: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn router(served: &Served, inspector: Inspector) -> Router {
    let endpoint = |select| DevEndpoint { served: served.clone(), select };
    let inspector = Arc::new(inspector);
    Router::new()
        .any(PATH, endpoint(Version::streamable_http))
        .get(SSE_PATH, endpoint(Version::sse_stream))
        .post(MESSAGE_PATH, endpoint(Version::sse_messages))
        .fallback(inspector::guarded(&inspector))
}

fn print_addresses(addresses: &[ListenAddr], token: &str) {
    for address in addresses {
        let ListenAddr::Tcp(address) = address else { continue };
        let text = format!(
            "listening on http://{address}\nMCP endpoint: http://{address}{PATH}\n\
             inspector: http://{address}/#token={token}\n"
        );
        // The reader may have closed the pipe. The server runs all the same.
        let _ = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
    }
}

/// Path of the Streamable HTTP endpoint.
const PATH: &str = "/mcp";

/// Path of the event stream of HTTP with SSE, the HTTP transport of MCP revision 2024-11-05.
const SSE_PATH: &str = "/sse";

/// Time that open requests get at the end of the program.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Exit code after a second signal: 128 plus 15, the number of SIGTERM. Shells use the same exit code.
const EXIT_AT_ONCE: i32 = 143;
