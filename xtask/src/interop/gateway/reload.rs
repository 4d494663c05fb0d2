//! Configs that follow one another while a tunnel and an event stream of routes that stay the same are open.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child;
use crate::interop::check::Scene;
use crate::server::without_scheme;

/// Writes generations of the config to `file`, of which one with the number 0 is there already.
pub(super) fn streams_live_on(scene: &Scene<'_>, config: &str, file: &Path) -> anyhow::Result<String> {
    let mut tunnel = open(scene, "/websocket", "Connection: Upgrade\r\nUpgrade: echo\r\n")?;
    read_until(&mut tunnel, "\r\n\r\n").context("no tunnel")?;
    let mut events = open(scene, "/events?every=10", "")?;
    let reloads = scene.either(10, 100);
    for n in 1..=reloads {
        fs::write(file, config.replace("{generation}", &n.to_string()))?;
        child::send_sighup(scene.server);
        scene.stop.wait("the new config", PATIENCE, || {
            let mut asked = open(scene, "/generation", "Connection: close\r\n")?;
            let mut answer = String::new();
            asked.read_to_string(&mut answer)?;
            Ok(answer.contains(&format!("generation {n}.")).then_some(()))
        })?;
        let message = format!("message {n}.");
        tunnel.write_all(message.as_bytes())?;
        let echo = read_until(&mut tunnel, ".").with_context(|| format!("the tunnel at reload {n}"))?;
        ensure!(echo == message, "the tunnel sent back {echo:?} at reload {n}");
        read_until(&mut events, "data").with_context(|| format!("the events at reload {n}"))?;
    }
    Ok(format!("{reloads} reloads, both lived on"))
}

fn open(scene: &Scene<'_>, target: &str, lines: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(without_scheme(&scene.url))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n").as_bytes())?;
    Ok(stream)
}

/// Reads byte by byte, so that the next read begins after `end`.
fn read_until(stream: &mut TcpStream, end: &str) -> anyhow::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        ensure!(stream.read(&mut byte)? > 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend(byte);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

const PATIENCE: Duration = Duration::from_secs(10);
