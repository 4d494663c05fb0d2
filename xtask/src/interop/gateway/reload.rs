//! Reloads the config many times. A tunnel and an event stream on unchanged routes must stay open.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child;
use crate::interop::check::Checker;
use crate::server::without_scheme;

/// Writes new generations of the config to `file`. The gateway already runs with generation 0.
pub(super) fn check_open_streams(checker: &Checker<'_>, config: &str, file: &Path) -> anyhow::Result<String> {
    let mut tunnel = open(checker, "/websocket", "Connection: Upgrade\r\nUpgrade: echo\r\n")?;
    read_until(&mut tunnel, "\r\n\r\n").context("cannot open the tunnel")?;
    let mut events = open(checker, "/events?every=10", "")?;
    let reloads = checker.either(10, 100);
    for n in 1..=reloads {
        fs::write(file, config.replace("{generation}", &n.to_string()))?;
        child::send_sighup(checker.server);
        checker.stop.wait("the new config", WAIT_LIMIT, || {
            let mut connection = open(checker, "/generation", "Connection: close\r\n")?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer)?;
            Ok(answer.contains(&format!("generation {n}.")).then_some(()))
        })?;
        let message = format!("message {n}.");
        tunnel.write_all(message.as_bytes())?;
        let echo = read_until(&mut tunnel, ".").with_context(|| format!("the tunnel at reload {n}"))?;
        ensure!(echo == message, "the tunnel sent back {echo:?} at reload {n}");
        read_until(&mut events, "data").with_context(|| format!("the events at reload {n}"))?;
    }
    Ok(format!("{reloads} reloads, tunnel and event stream stayed open"))
}

fn open(checker: &Checker<'_>, target: &str, lines: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(without_scheme(&checker.url))?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n").as_bytes())?;
    Ok(stream)
}

/// Reads bytes until the text `end`. Reads single bytes, so that the next read begins directly after `end`.
fn read_until(stream: &mut TcpStream, end: &str) -> anyhow::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        ensure!(
            stream.read(&mut byte)? > 0,
            "the connection ended after {:?}",
            String::from_utf8_lossy(&text)
        );
        text.extend(byte);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

const WAIT_LIMIT: Duration = Duration::from_secs(10);
