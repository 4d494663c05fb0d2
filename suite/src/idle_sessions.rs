//! Opens MCP sessions of the legacy era, and measures the memory of the server for each idle session.
//!
//! All requests use one connection, so connections do not count as memory of sessions.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use thruway_bench::{StopFlag, usage};
use thruway_net::Clock;

use crate::case::MessageEra;
use crate::figures::{Figures, Metric, as_f64};
use crate::server::Server;

/// Opens `count` sessions on an endpoint, and calls a tool of each member in each session. The memory of the
/// first sessions does not count, because the endpoint then connects to its members.
pub(crate) fn measure(server: &Server, count: u64, stop: &StopFlag) -> anyhow::Result<Figures> {
    let mut client = Client::connect(server.address)?;
    let memory = || usage(server.id()).map(|usage| usage.resident_bytes).context("the server has ended");
    let (clock, warm_up) = (Clock::system(), WARM_UP.min(count / 2));
    let (start, mut before) = (clock.now_exact(), 0);
    for number in 0..count {
        ensure!(!stop.is_set(), "interrupted");
        if number == warm_up {
            before = memory()?;
        }
        client.open_session(number)?;
    }
    let growth = memory()?.saturating_sub(before);
    // The server must not have evicted sessions.
    client.session.clone_from(&client.first_session);
    client.call(0, MEMBERS[0])?;
    let seconds = clock.now_exact().saturating_sub(start).as_secs_f64();
    let figures = Figures::counted(count, seconds);
    Ok(figures.with(Metric::MemoryPerSession, as_f64(growth) / as_f64(count - warm_up)))
}

/// A client with one connection.
struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    /// The id of the current session, or an empty string.
    session: String,
    first_session: String,
}

impl Client {
    fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let (session, first_session) = (String::new(), String::new());
        Ok(Self { stream: BufReader::new(stream), address, session, first_session })
    }

    fn open_session(&mut self, number: u64) -> anyhow::Result<()> {
        self.session.clear();
        let revision = MessageEra::Legacy.revision().as_str();
        let client = json!({"name": "bench", "version": "1.0"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        self.post(number, &request("initialize", &params))?;
        ensure!(!self.session.is_empty(), "the server began no session");
        if number == 0 {
            self.first_session.clone_from(&self.session);
        }
        self.post(number, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        MEMBERS.iter().try_for_each(|member| self.call(number, member))
    }

    fn call(&mut self, number: u64, member: &str) -> anyhow::Result<()> {
        let params = json!({"name": format!("{member}__echo"), "arguments": {"message": "hello"}});
        let content = self.post(number, &request("tools/call", &params))?;
        ensure!(content.contains("structuredContent"), "unexpected response to a call: {content}");
        Ok(())
    }

    /// Sends a message of client `number` in the current session, and returns the body of the response. If
    /// the response has a session id, this session becomes the current session.
    fn post(&mut self, number: u64, message: &Value) -> anyhow::Result<String> {
        let (address, body) = (self.address, message.to_string());
        let [.., high, middle, low] = number.to_be_bytes();
        let session = match &*self.session {
            "" => String::new(),
            id => format!("Mcp-Session-Id: {id}\r\n"),
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nX-Forwarded-For: 10.{high}.{middle}.{low}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             {session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.receive()
    }

    fn receive(&mut self) -> anyhow::Result<String> {
        let (mut status, mut length, mut line) = (String::new(), 0, String::new());
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "the server closed the connection");
            let text = line.trim_end();
            match text.split_once(": ") {
                _ if text.is_empty() => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse()?;
                }
                Some((name, value)) if name.eq_ignore_ascii_case("mcp-session-id") => {
                    value.clone_into(&mut self.session);
                }
                _ if status.is_empty() => text.clone_into(&mut status),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        ensure!(status.starts_with("HTTP/1.1 20"), "unexpected response: {status} {body}");
        Ok(body)
    }
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The members in `federation-idle.toml`.
const MEMBERS: [&str; 3] = ["one", "two", "three"];

/// Number of sessions before the first measurement of the memory.
const WARM_UP: u64 = 500;

/// Time limit of each response.
const LIMIT: Duration = Duration::from_secs(10);
