//! Sends one request and receives its response: over HTTP on a new connection for each request, or over
//! pipes.

use std::future::poll_fn;
use std::io::IoSlice;
use std::time::Duration;

use serde_json::Value;
use thruway_client::{ConnectError, UpstreamAddr, UpstreamStream, connect, secure};
use thruway_http1::{BodyLength, ClientConnection, ClientEvent, HeadIndex, Limits, ResponseTo};
use thruway_mcp::Revision;
use thruway_mcp::schema::methods;
use thruway_net::Transport;

use super::error::ProbeError;
use crate::requests::{Endpoint, MESSAGE_BYTES_MAX, SingleMessage};
use crate::stdio::Pipes;
use crate::worker::LoadTls;

/// The transport to a server: HTTP, or the pipes to a child process.
pub(super) enum Channel<'a> {
    Http {
        endpoint: &'a Endpoint,
        way: ConnectSettings<'a>,
        /// The header line with the session id, or empty if there is no session.
        session: Vec<u8>,
    },
    Pipes {
        pipes: Pipes,
        unread: Vec<u8>,
    },
}

/// Settings for connecting to a server.
#[derive(Clone, Copy)]
pub(super) struct ConnectSettings<'a> {
    pub(super) address: &'a UpstreamAddr,
    pub(super) tls: Option<&'a LoadTls>,
    pub(super) within: Duration,
}

/// A complete HTTP response.
struct Answer {
    status: u16,
    session: Option<Vec<u8>>,
    content: Vec<u8>,
}

impl Channel<'_> {
    /// Sends a request and returns its result. `place` is the number of the request, and determines the
    /// request id.
    pub(super) async fn ask(
        &mut self,
        place: u64,
        method: &str,
        params: Value,
        revision: Revision,
    ) -> Result<Value, ProbeError> {
        let message = SingleMessage::request(place, method, params, revision, self.endpoint())?;
        let response = match self {
            Self::Pipes { pipes, unread } => {
                write_all(pipes, &message.line()).await?;
                loop {
                    // Skips lines that are not responses, such as log lines.
                    if let Some(response) = response_in(&read_line(pipes, unread).await?) {
                        break response;
                    }
                }
            }
            Self::Http { .. } => {
                let answer = self.post(&message).await?;
                let response = response_of(&answer.content);
                if answer.status != 200 && response.is_none() {
                    return Err(ProbeError::Status(answer.status));
                }
                // Keeps only the session id of the `initialize` response. Some servers send a session id
                // with an error response, but do not recognize this id later.
                self.keep_session(answer.session.filter(|_| method == methods::INITIALIZE));
                response.ok_or(ProbeError::NoResponse)?
            }
        };
        outcome(response)
    }

    /// Sends the notification that the client is initialized.
    pub(super) async fn notify_initialized(&mut self, revision: Revision) -> Result<(), ProbeError> {
        let message = SingleMessage::initialized(revision, self.endpoint())?;
        match self {
            Self::Pipes { pipes, .. } => write_all(pipes, &message.line()).await,
            Self::Http { .. } => match self.post(&message).await?.status {
                200..300 => Ok(()),
                status => Err(ProbeError::Status(status)),
            },
        }
    }

    /// Ends the session that the probe began. Ignores the status of the response, because the server may
    /// refuse to end the session.
    pub(super) async fn end_session(&mut self) -> Result<(), ProbeError> {
        let Self::Http { endpoint, way, session } = self else { return Ok(()) };
        if !session.is_empty() {
            let bytes = SingleMessage::delete(endpoint, session)?;
            exchange(*way, &bytes, ResponseTo::from(thruway_message::Method::Delete)).await?;
        }
        Ok(())
    }

    const fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Http { endpoint, .. } => Some(*endpoint),
            Self::Pipes { .. } => None,
        }
    }

    async fn post(&self, message: &SingleMessage) -> Result<Answer, ProbeError> {
        let Self::Http { way, session, .. } = self else { return Err(ProbeError::NoResponse) };
        let mut bytes = Vec::new();
        let to = message.write(session, &mut bytes);
        exchange(*way, &bytes, to).await
    }

    fn keep_session(&mut self, id: Option<Vec<u8>>) {
        if let (Self::Http { session, .. }, Some(id)) = (self, id) {
            *session = [b"Mcp-Session-Id: ", &id[..], b"\r\n"].concat();
        }
    }
}

impl ConnectSettings<'_> {
    async fn connect(self) -> Result<UpstreamStream, ConnectError> {
        let stream = connect(self.address, self.within).await?;
        match self.tls {
            None => Ok(stream.into()),
            Some(tls) => secure(stream, &tls.connector, &tls.server_name, self.within).await,
        }
    }
}

async fn exchange(way: ConnectSettings<'_>, bytes: &[u8], to: ResponseTo) -> Result<Answer, ProbeError> {
    let connecting = way.connect().await;
    let mut stream = connecting.map_err(|error| ProbeError::Connect(way.address.clone(), error))?;
    write_all(&mut stream, bytes).await?;
    let mut connection = ClientConnection::new(Limits::default());
    connection.expect_response(to, false);
    let mut answer = Answer { status: 0, session: None, content: Vec::new() };
    let mut index = HeadIndex::with_capacity(64);
    let mut unread = Vec::new();
    loop {
        if read_some(&mut stream, &mut unread).await? == 0 {
            let is_complete = connection.handle_end_of_input(&unread) == Ok(true);
            return if is_complete { Ok(answer) } else { Err(ProbeError::Closed) };
        }
        if take(&mut connection, &mut index, &mut unread, &mut answer)? {
            return Ok(answer);
        }
    }
}

/// Parses the received bytes in `unread`. Returns `true` if the response is complete.
fn take(
    connection: &mut ClientConnection,
    index: &mut HeadIndex,
    unread: &mut Vec<u8>,
    answer: &mut Answer,
) -> Result<bool, ProbeError> {
    let mut taken = 0;
    let is_complete = loop {
        let input = &unread[taken..];
        let (event, used) = connection.handle_input(input, index)?;
        let head = &input[..used];
        taken += used;
        match event {
            None => break false,
            Some(ClientEvent::Interim | ClientEvent::Tunnel) => {}
            Some(ClientEvent::Response(length)) => {
                let head = index.response_head(head);
                answer.status = head.status.as_u16();
                answer.session = head.field("mcp-session-id").map(|id| id.as_bytes().to_vec());
                if length == BodyLength::NONE {
                    break true;
                }
            }
            Some(ClientEvent::Content(content)) => answer.content.extend_from_slice(content),
            Some(ClientEvent::EndOfContent) => break true,
        }
        if answer.content.len() > MESSAGE_BYTES_MAX {
            return Err(ProbeError::NoResponse);
        }
    };
    unread.drain(..taken);
    Ok(is_complete)
}

/// Finds the JSON-RPC response in a body. The body is either the response itself, or an event stream with
/// the response in one of its events.
fn response_of(content: &[u8]) -> Option<Value> {
    if content.trim_ascii_start().starts_with(b"{") {
        return response_in(content);
    }
    let lines = content.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"data:")).find_map(response_in)
}

fn response_in(bytes: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(bytes).ok()?;
    (message.get("result").is_some() || message.get("error").is_some()).then_some(message)
}

fn outcome(mut response: Value) -> Result<Value, ProbeError> {
    let error = &response["error"];
    if error.is_null() {
        return Ok(response["result"].take());
    }
    let message = error["message"].as_str().unwrap_or_default();
    let beginning = message.chars().take(ERROR_CHARACTERS).collect();
    Err(ProbeError::Refused(error["code"].as_i64().unwrap_or_default(), beginning))
}

async fn read_line(pipes: &mut Pipes, unread: &mut Vec<u8>) -> Result<Vec<u8>, ProbeError> {
    loop {
        if let Some(end) = memchr::memchr(b'\n', unread) {
            return Ok(unread.drain(..=end).collect());
        }
        if unread.len() > MESSAGE_BYTES_MAX {
            return Err(ProbeError::NoResponse);
        }
        if read_some(pipes, unread).await? == 0 {
            return Err(ProbeError::Closed);
        }
    }
}

async fn read_some<T: Transport>(transport: &mut T, unread: &mut Vec<u8>) -> Result<usize, ProbeError> {
    let before = unread.len();
    unread.resize(before + READ_BYTES, 0);
    let read = poll_fn(|cx| transport.poll_read(cx, &mut unread[before..])).await;
    unread.truncate(before + read.as_ref().copied().unwrap_or(0));
    Ok(read?)
}

async fn write_all<T: Transport>(transport: &mut T, mut bytes: &[u8]) -> Result<(), ProbeError> {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| transport.poll_write(cx, &[IoSlice::new(bytes)])).await?;
        bytes = &bytes[written..];
    }
    Ok(())
}

const READ_BYTES: usize = 64 << 10;
const ERROR_CHARACTERS: usize = 200;
