//! A small HTTP client for Prometheus and the admin listener.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Returns the JSON document at `target`, with any status.
pub(super) fn json(address: &str, target: &str) -> anyhow::Result<Value> {
    serde_json::from_str(&response(address, target)?.1).with_context(|| format!("no JSON at {target}"))
}

/// Returns the body of a response with the status 200.
pub(super) fn get(address: &str, target: &str) -> anyhow::Result<String> {
    let (status, body) = response(address, target)?;
    ensure!(status == "200", "the status of {target} is {status}: {body}");
    Ok(body)
}

/// Returns the status and the body of a response.
pub(super) fn response(address: &str, target: &str) -> anyhow::Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // A server sends no chunks to a client with HTTP/1.0.
    write!(stream, "GET {target} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let response = String::from_utf8(bytes)?;
    let (head, body) = response.split_once("\r\n\r\n").context("the response has no body")?;
    let status = head.split(' ').nth(1).context("the response has no status")?;
    Ok((status.to_owned(), body.to_owned()))
}

/// Returns `text` as a value of a query parameter.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => encoded.push(byte.into()),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

const LIMIT: Duration = Duration::from_secs(10);
