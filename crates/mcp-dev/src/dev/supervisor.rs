//! Builds, starts and restarts the server.
//!
//! A restart keeps the bridge, with the sessions of its clients, if the new version has the same name,
//! capabilities and instructions. Otherwise, the sessions end, and clients begin new ones.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use thruway_mcp_sdk::backend::Change;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, Direction, McpClient, McpClientBuilder, McpClientError, McpClientOptions,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::journal::{EntryKind, Journal};
use super::process::{ProcessGroup, build_of, note};
use super::restarts::RestartPace;
use super::served::{Served, ServerState, Version};
use super::watch::SourceWatcher;
use crate::message::escaped_line;

/// Options of a development server.
#[derive(Clone, Debug)]
pub(crate) struct DevOptions {
    /// Command that starts the MCP server: a program and its arguments.
    pub(crate) command: Vec<String>,
    /// `true` if a `cargo run` command is built first. A failed build then keeps the running version.
    pub(crate) builds: bool,
    /// URL at which the command serves HTTP. `None` for a server with stdio.
    pub(crate) url: Option<String>,
    /// Address of the endpoint and of the inspector. It must be a loopback address.
    pub(crate) listen: SocketAddr,
    /// Directories with source files.
    pub(crate) watch: Vec<PathBuf>,
    /// Maximum time from the start of the command until the server responds.
    pub(crate) start_timeout: Duration,
}

/// Builds, starts and restarts the server.
pub(super) struct Supervisor {
    options: DevOptions,
    served: Served,
    journal: Journal,
    /// The process of a server with a URL. The bridge owns the processes of a server with stdio.
    process: Option<ProcessGroup>,
}

impl Supervisor {
    pub(super) const fn new(options: DevOptions, served: Served, journal: Journal) -> Self {
        Self { options, served, journal, process: None }
    }

    /// Starts the server, and restarts it after each change of its source and at each request of the
    /// inspector.
    ///
    /// # Errors
    /// The watcher fails.
    pub(super) async fn run(
        &mut self,
        mut watcher: SourceWatcher,
        mut restarts: mpsc::Receiver<()>,
    ) -> io::Result<()> {
        let mut pace = RestartPace::new();
        self.deploy().await;
        loop {
            pace.deployed(Instant::now());
            let is_change = self.next_reason(&mut watcher, &mut restarts).await?;
            if let Some(pause) = pace.pause_before_restart(is_change, Instant::now()) {
                self.report(&format!("{RESTARTS_TEXT} (the next restart follows in {pause:?})"));
                // The inspector can restart the server earlier.
                let _ = timeout(pause, restarts.recv()).await;
                watcher.forget();
            }
            self.deploy().await;
        }
    }

    /// Waits for the next reason to restart, and reports it. Returns `true` if the reason is a change of the
    /// source. Also notices the end of the server.
    async fn next_reason(
        &mut self,
        watcher: &mut SourceWatcher,
        restarts: &mut mpsc::Receiver<()>,
    ) -> io::Result<bool> {
        let mut change = pin!(watcher.changed());
        loop {
            tokio::select! {
                path = &mut change => {
                    self.report(&format!("`{}` has changed", path?.display()));
                    return Ok(true);
                }
                Some(()) = restarts.recv() => {
                    self.report("the inspector requests a restart");
                    return Ok(false);
                }
                () = leader_ended(self.process.as_ref()) => self.end().await,
            }
        }
    }

    /// Ends the other processes of a server that has ended, and reports its exit status.
    async fn end(&mut self) {
        let Some(process) = self.process.take() else { return };
        let status = match process.stop().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.fail(ServerState::Ended(status));
    }

    /// Ends the server and all its processes.
    pub(super) async fn shut_down(&mut self) {
        if let Some(version) = self.served.version() {
            version.bridge.drain(Duration::ZERO).await;
        }
        if let Some(process) = self.process.take() {
            // No caller needs the exit status.
            let _ = process.stop().await;
        }
    }

    /// Builds the server, and replaces the running version. If the build fails, the running version
    /// continues.
    async fn deploy(&mut self) {
        if let Err(reason) = self.build().await {
            return self.fail(ServerState::Unbuilt(reason));
        }
        self.served.set(ServerState::Starting);
        if let Some(version) = self.served.version() {
            version.bridge.close().await;
        }
        if let Some(process) = self.process.take() {
            // No caller needs the exit status.
            let _ = process.stop().await;
        }
        let limit = self.options.start_timeout;
        match timeout(limit, self.start()).await {
            Ok(Ok(version)) => self.replace(version).await,
            Ok(Err(reason)) => self.fail(ServerState::Failed(reason)),
            Err(_) => self.fail(ServerState::Failed(format!("it did not respond within {limit:?}"))),
        }
    }

    async fn build(&self) -> Result<(), String> {
        let build = if self.options.builds { build_of(&self.options.command) } else { None };
        let Some(build) = build else { return Ok(()) };
        self.served.set(ServerState::Building);
        self.report(&format!("building with `{}`", build.join(" ")));
        let process = ProcessGroup::start(&build, EntryKind::Build, &self.journal);
        let status = process.map_err(|error| error.to_string())?.wait().await;
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{}` ended with {status}", build.join(" "))),
            Err(error) => Err(format!("`{}` cannot be awaited: {error}", build.join(" "))),
        }
    }

    /// Starts the server, and connects to it.
    async fn start(&mut self) -> Result<Version, String> {
        let connected = match &self.options.url {
            Some(_) => self.start_and_connect().await?,
            None => self.connect().await.map_err(|error| error.to_string())?,
        };
        Version::new(connected).await.map_err(|error| error.to_string())
    }

    /// Starts a server that listens on a URL. Connects when the server accepts connections.
    async fn start_and_connect(&mut self) -> Result<Bridge, String> {
        let process = ProcessGroup::start(&self.options.command, EntryKind::Output, &self.journal);
        let process = process.map_err(|error| error.to_string())?;
        let connecting = async {
            loop {
                match self.connect().await {
                    Err(error) if error.is_temporary() => sleep(CONNECT_PAUSE).await,
                    outcome => return outcome,
                }
            }
        };
        let connected = tokio::select! {
            () = process.leader_ended() => {
                let status = process.stop().await;
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(format!("the command ended before the server responded ({status})"));
            }
            connected = connecting => connected.map_err(|error| error.to_string())?,
        };
        self.process = Some(process);
        Ok(connected)
    }

    /// Connects a bridge. For a server with stdio, this starts the server.
    async fn connect(&self) -> Result<Bridge, McpClientError> {
        let client = McpClientOptions {
            client_info: Implementation::new("thruway-mcp-dev", env!("CARGO_PKG_VERSION")),
            exit_wait: EXIT_WAIT,
            ..BridgeOptions::default().client
        };
        let (words, url) = (self.options.command.clone(), self.options.url.clone());
        let journal = self.journal.clone();
        let connect = move |builder: McpClientBuilder| connect_to(builder, &words, url.as_deref(), &journal);
        Bridge::connect(BridgeOptions { client, ..BridgeOptions::default() }, connect).await
    }

    /// Lets the new version answer requests.
    async fn replace(&self, new: Version) {
        match self.served.version() {
            Some(old) if old.discovered == new.discovered => {
                new.bridge.drain(Duration::ZERO).await;
                self.served.serve(old.clone());
                // The lists may have changed. The notification makes clients request them again.
                let core = old.bridge.server().core();
                for change in [Change::Tools, Change::Prompts, Change::Resources] {
                    core.announce(&change);
                }
                self.report("the server has restarted");
            }
            Some(_) => {
                if let Some(old) = self.served.serve(Arc::new(new)) {
                    old.bridge.server().core().end_sessions();
                    old.bridge.drain(Duration::ZERO).await;
                }
                self.report("the server has restarted with other capabilities; its sessions have ended");
            }
            None => {
                self.served.serve(Arc::new(new));
                self.report("the server responds");
            }
        }
    }

    fn fail(&self, state: ServerState) {
        let kept = match (&state, self.served.serving()) {
            (ServerState::Unbuilt(_), Ok(_)) => "; the previous version continues",
            _ => "",
        };
        let text = format!("{}{kept}", state.reason());
        self.served.set(state);
        tracing::error!("{}", escaped_line(&text, REASON_BYTES_MAX));
        self.journal.add(EntryKind::State, &text);
    }

    fn report(&self, text: &str) {
        tracing::info!("{}", escaped_line(text, REASON_BYTES_MAX));
        self.journal.add(EntryKind::State, text);
    }
}

/// Resolves when the process has ended. Without a process, never resolves.
async fn leader_ended(process: Option<&ProcessGroup>) {
    match process {
        Some(process) => process.leader_ended().await,
        None => pending().await,
    }
}

/// Connects an MCP client. Its messages and the output of its server become entries of the journal.
fn connect_to(
    builder: McpClientBuilder,
    words: &[String],
    url: Option<&str>,
    journal: &Journal,
) -> Result<McpClient, McpClientError> {
    let (messages, output) = (journal.clone(), journal.clone());
    let builder = builder.on_message(move |direction, bytes| {
        let kind = match direction {
            Direction::Sent => EntryKind::Sent,
            Direction::Received => EntryKind::Received,
        };
        messages.add(kind, String::from_utf8_lossy(bytes).trim_end());
    });
    if let Some(url) = url {
        return Ok(builder.http(url));
    }
    let builder = builder.on_stderr(move |line| note(&output, EntryKind::Output, line.as_bytes()));
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or("", String::as_str));
    // A shell may start the server as its own child, so the client must end the whole group.
    command.args(words).process_group(0);
    builder.command(command)
}

/// Time that a server with stdio gets to end, before SIGTERM and again before SIGKILL.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Text about a server that restarts again and again.
const RESTARTS_TEXT: &str =
    "the server restarts again and again: does it write files itself? Pass `--watch src`";

/// Pause between two attempts to connect to the URL of a server that starts.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum length of a reason in the log, in bytes.
const REASON_BYTES_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests;
