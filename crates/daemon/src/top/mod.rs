//! `thruway top`: shows the overview of a running service in a terminal.
//!
//! The command reads `/status` and `/history` of the admin listener. It does not need a terminal: it then prints
//! plain text.

mod fleet;
mod view;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use thruway_client::{Client, ClientConfig};
use thruway_net::tls::{Roots, TlsConnector, TlsConnectorConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::Failure;
pub use fleet::fleet_status;
use view::{History, Status, screen};

/// Settings of [`top`].
#[derive(Clone, Copy, Debug)]
pub struct TopOptions {
    /// `true` prints the overview once. `false` prints it each second until the process ends.
    pub once: bool,
    /// `true` if the output is a terminal. Each print then replaces the previous one.
    pub is_terminal: bool,
    /// Returns the current width of the terminal in columns. Lines are not longer than this.
    pub columns: fn() -> usize,
}

/// Access to an admin listener that other machines can reach.
#[derive(Clone, Default)]
pub struct TopAccess {
    /// Token of a user with the role `read` or `operator`. Default: no token.
    pub token: Option<String>,
    /// PEM file with the root certificates that the client trusts. Default: the roots of the system.
    pub roots: Option<PathBuf>,
}

impl TopAccess {
    /// Reads the token from a file. Ignores white space around the token, such as the line break at the end of the
    /// file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if it does not contain a token.
    pub fn token_file(self, path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|error| Failure::new(format!("cannot read `{}`: {error}", path.display())))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("`{}` does not contain a token", path.display());
            return Err(Failure::new(message).with_hint("the file contains only the token, on one line"));
        }
        Ok(Self { token: Some(token.to_owned()), ..self })
    }
}

/// Hides the token.
impl fmt::Debug for TopAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_token = self.token.is_some();
        f.debug_struct("TopAccess").field("has_token", &has_token).field("roots", &self.roots).finish()
    }
}

/// Prints the overview of the service whose admin listener has the URL `url`, such as
/// `http://127.0.0.1:9900` or `unix:PATH`.
///
/// # Errors
/// Returns an error if the URL is invalid, if the root certificates cannot be read or, with `once`, if the
/// service cannot be reached. Also returns an error if the output cannot be written.
pub fn top(
    url: &str,
    access: &TopAccess,
    options: TopOptions,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let admin = AdminClient::new(url, access)?;
    runtime()?.block_on(run(&admin, options, output))
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))
}

/// A client of an admin listener.
struct AdminClient {
    client: Client,
    token: Option<String>,
    /// The URL in messages.
    shown: String,
    /// The URL of requests, without a slash at the end.
    base: String,
}

async fn run(admin: &AdminClient, options: TopOptions, output: &mut dyn Write) -> Result<(), Failure> {
    let mut next = Instant::now();
    loop {
        let text = match admin.overview((options.columns)()).await {
            Ok(text) => text,
            Err(failure) if options.once => return Err(failure),
            Err(failure) => format!("{failure}trying again\n"),
        };
        if write(output, &text, options).is_err() {
            // The reader has closed the pipe.
            return Ok(());
        }
        if options.once {
            return Ok(());
        }
        next = (next + PERIOD).max(Instant::now());
        sleep_until(next).await;
    }
}

fn write(output: &mut dyn Write, text: &str, options: TopOptions) -> std::io::Result<()> {
    if options.is_terminal && !options.once {
        // Moves to the first line, and clears the rest of each line and of the screen.
        let text = text.replace('\n', "\u{1b}[K\n");
        write!(output, "\u{1b}[H{text}\u{1b}[J")?;
    } else {
        writeln!(output, "{text}")?;
    }
    output.flush()
}

impl AdminClient {
    fn new(url: &str, access: &TopAccess) -> Result<Self, Failure> {
        let (client, base) = if let Some(path) = url.strip_prefix("unix:") {
            (Client::of_unix_socket(path), "http://localhost")
        } else {
            (client_trusting(access.roots.as_ref())?, url.trim_end_matches('/'))
        };
        let (token, shown) = (access.token.clone(), url.to_owned());
        Ok(Self { client, token, shown, base: base.to_owned() })
    }

    /// Returns the text of the overview, with lines of at most `columns` characters.
    async fn overview(&self, columns: usize) -> Result<String, Failure> {
        let status: Status = self.read("/status").await?;
        let history: History = self.read("/history?seconds=900&step=15").await?;
        Ok(screen(&self.shown, &status, &history, columns))
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let document = timeout(TIMEOUT, self.bytes_of(path)).await;
        let document = document.unwrap_or_else(|_| Err(self.failure("no response in time")))?;
        serde_json::from_slice(&document).map_err(|error| {
            self.failure(&format!("the response is not from a Thruway admin listener: {error}"))
        })
    }

    async fn bytes_of(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let url = format!("{}{path}", self.base);
        let mut request = self.client.get(&url);
        if let Some(token) = &self.token {
            request = request.field("Authorization", format!("Bearer {token}"));
        }
        let response = request.send().await;
        let response = response.map_err(|error| self.failure(&error.to_string()))?;
        let status = response.status().as_u16();
        let document = response.collect(DOCUMENT_BYTES_MAX).await;
        let document = document.map_err(|error| self.failure(&error.to_string()))?;
        if status == 401 {
            return Err(self.failure("the admin listener refuses the request without a valid token (401)"));
        }
        if status != 200 {
            return Err(self.failure(&format!("the status of the response is {status}")));
        }
        Ok(document.to_vec())
    }

    fn failure(&self, reason: &str) -> Failure {
        Failure::new(format!("cannot read the state of `{}`: {}", self.shown, view::printable(reason)))
            .with_hint(HINT)
    }
}

const HINT: &str = "pass the URL of the admin listener in `[admin]`: `thruway top http://127.0.0.1:9900`, or `https://` \
                    with `[admin.tls]`; with `[admin.authentication]`, also pass `--token-file`; for a certificate \
                    of a private CA, also pass `--roots`";

/// Returns a client that trusts the root certificates in this file, or else the roots of the system.
fn client_trusting(roots: Option<&PathBuf>) -> Result<Client, Failure> {
    let Some(roots) = roots else { return Ok(Client::new()) };
    let roots = Roots::Files(vec![roots.clone()]);
    let connector = TlsConnector::load(TlsConnectorConfig { roots, ..TlsConnectorConfig::default() });
    let connector = connector.map_err(|error| Failure::new(&error).with_hint(error.hint()))?;
    Ok(Client::with_config(ClientConfig { tls: Some(Arc::new(connector)), ..ClientConfig::default() }))
}

/// Time between two prints.
const PERIOD: Duration = Duration::from_secs(1);

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;
