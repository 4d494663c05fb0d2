//! `thruway top`: shows the overview of a running service in a terminal.
//!
//! The command reads `/status` and `/history` of the admin listener. It does not need a terminal: it then prints
//! plain text.

mod view;

use std::io::Write;
use std::time::Duration;

use serde::de::DeserializeOwned;
use thruway_client::Client;
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::Failure;
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

/// Prints the overview of the service whose admin listener has the URL `url`, such as
/// `http://127.0.0.1:9900` or `unix:PATH`.
///
/// # Errors
/// Returns an error if the URL is invalid or, with `once`, if the service cannot be reached. Also returns an
/// error if the output cannot be written.
pub fn top(url: &str, options: TopOptions, output: &mut dyn Write) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(run(&AdminClient::new(url), options, output))
}

/// A client of an admin listener.
struct AdminClient {
    client: Client,
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
    fn new(url: &str) -> Self {
        let shown = url.to_owned();
        match url.strip_prefix("unix:") {
            Some(path) => {
                Self { client: Client::of_unix_socket(path), shown, base: "http://localhost".into() }
            }
            None => Self { client: Client::new(), shown, base: url.trim_end_matches('/').to_owned() },
        }
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
        let response = self.client.get(&format!("{}{path}", self.base)).send().await;
        let response = response.map_err(|error| self.failure(&error.to_string()))?;
        let status = response.status().as_u16();
        let document = response.collect(DOCUMENT_BYTES_MAX).await;
        let document = document.map_err(|error| self.failure(&error.to_string()))?;
        if status != 200 {
            return Err(self.failure(&format!("the status of the response is {status}")));
        }
        Ok(document.to_vec())
    }

    fn failure(&self, reason: &str) -> Failure {
        Failure::new(format!("cannot read the state of `{}`: {}", self.shown, view::printable(reason)))
            .with_hint("pass the URL of the admin listener, as `[admin]` sets it: `thruway top http://127.0.0.1:9900`")
    }
}

/// Time between two prints.
const PERIOD: Duration = Duration::from_secs(1);

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;
