//! Our own engine as an upstream: tells what it was asked, as the others do.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use thruway_server::{Request, Server};

use crate::server::OwnServer;

/// Starts it.
pub(super) fn start(log: &Path) -> anyhow::Result<OwnServer> {
    let log = Arc::new(Mutex::new(File::create(log)?));
    let tell = move |request: &Request<'_>| {
        let line = line_of(request);
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // A missing line is a divergence, which the comparison finds.
        let _logged = writeln!(log, "{line}");
        line
    };
    OwnServer::new(Server::new(tell).workers(1).listen("127.0.0.1:0")?.start()?, "http")
}

fn line_of(request: &Request<'_>) -> String {
    let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
    let line = json!({
        "method": request.method().as_str(),
        "target": request.target().to_string(),
        "host": request.field("host").map(|host| text(host.as_bytes())),
        "content": text(request.content()),
    });
    escaped(&line.to_string())
}

/// Without characters beyond ASCII, as logs are read byte by byte.
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
