//! The upstream servers of the request smuggling checks, listed in `upstreams.toml`. Each server logs its
//! requests. All servers except nginx also describe the request in the response.

use std::any::Any;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::json;
use thruway_server::Request;

use crate::interop::check::Checker;
use crate::interop::words;
use crate::list;
use crate::server::{OwnServer, without_scheme};

/// An upstream server for the request smuggling checks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    /// The program that must be installed.
    pub(super) program: String,
    pub(super) what: String,
    /// `true` if the responses of the server do not describe the requests.
    #[serde(default)]
    pub(super) is_silent: bool,
    /// `true` if the server runs only with `--full`, because it needs an installation.
    #[serde(default)]
    pub(super) full_only: bool,
    /// The command, which is empty for our own engine. `{log}` becomes the path of the log.
    #[serde(default)]
    command: Vec<String>,
}

/// A running upstream server. Dropping this value ends the server.
pub(super) struct Started {
    _running: Box<dyn Any>,
    /// `IP:PORT`.
    pub(super) address: String,
}

/// Returns all upstream servers.
pub(super) fn all() -> anyhow::Result<Vec<Upstream>> {
    list::read(include_str!("upstreams.toml"))
}

impl Upstream {
    /// Starts the server with an empty log.
    pub(super) fn start(&self, log: &Path, checker: &Checker<'_>) -> anyhow::Result<Started> {
        fs::write(log, "")?;
        if self.command.is_empty() {
            let ours = our_engine(log)?;
            let address = without_scheme(&ours.url).to_owned();
            return Ok(Started { _running: Box::new(ours), address });
        }
        let log = log.to_str().context("the temporary directory's path is not UTF-8")?;
        let server = words::start(&self.command, [], &[("log", log.to_owned())], "upstream", checker)?;
        let address = server.address().to_owned();
        Ok(Started { _running: Box::new(server), address })
    }
}

/// Starts our own engine. Like the other servers, its handler logs each request and describes it in the
/// response.
fn our_engine(log: &Path) -> anyhow::Result<OwnServer> {
    let log = Arc::new(Mutex::new(File::create(log)?));
    let handler = move |request: &Request<'_>| {
        let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
        let line = json!({
            "method": request.method().as_str(),
            "target": request.target().to_string(),
            "host": request.field("host").map(|host| text(host.as_bytes())),
            "content": text(request.content()),
        });
        // Each character is a Latin-1 character, so it becomes one byte.
        let line: Vec<_> = line.to_string().chars().filter_map(|byte| u8::try_from(byte).ok()).collect();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // Ignores a failed write, because the comparison detects a missing line.
        let _logged = log.write_all(&[&line[..], b"\n"].concat());
        line
    };
    OwnServer::new(thruway_server::Server::new(handler).workers(1).listen("127.0.0.1:0")?.start()?, "http")
}

#[cfg(test)]
mod tests {
    #[test]
    fn upstream_list_is_valid() {
        let all = super::all().unwrap();
        assert!(all.iter().all(|upstream| upstream.command.is_empty() == (upstream.program == "thruway")));
        assert_eq!(all.len(), 7);
    }
}
