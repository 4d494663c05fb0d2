//! Our own engine as an upstream: tells what it was asked, as the others do.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use serde_json::json;
use thruway_server::{ListenAddr, Request, RunningServer, Server};

/// A server in this process, which ends when dropped.
pub(super) struct Ours {
    server: Option<RunningServer>,
    pub(super) url: String,
}

impl Ours {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no port, or no file to log to.
    pub(super) fn start(log: &Path) -> anyhow::Result<Self> {
        let log = Arc::new(Mutex::new(File::create(log)?));
        let tell = move |request: &Request<'_>| {
            let line = line_of(request);
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            // What is missing in the log is a divergence, which is what the log is there to show.
            let _logged = writeln!(log, "{line}");
            line
        };
        let server = Server::new(tell).workers(1).listen("127.0.0.1:0")?.start()?;
        let address = server.addresses().iter().find_map(|address| match address {
            ListenAddr::Tcp(address) => Some(*address),
            ListenAddr::Unix(_) => None,
        });
        let url = format!("http://{}", address.context("no address of TCP")?);
        Ok(Self { server: Some(server), url })
    }
}

fn line_of(request: &Request<'_>) -> String {
    let text = |octets: &[u8]| octets.iter().copied().map(char::from).collect::<String>();
    let line = json!({
        "method": request.method().as_str(),
        "target": request.target().to_string(),
        "host": request.field("host").map(|host| text(host.as_bytes())),
        "content": text(request.content()),
    });
    escaped(&line.to_string())
}

/// Without characters beyond ASCII, as logs are read octet by octet.
fn escaped(json: &str) -> String {
    let mut escaped = String::new();
    for character in json.chars() {
        match character {
            '\0'..='\x7f' => escaped.push(character),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
        }
    }
    escaped
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}
