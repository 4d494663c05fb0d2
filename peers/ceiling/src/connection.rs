//! A connection: receives, counts and sends until the socket would block.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::request_ends::RequestEnds;
use crate::responses::Responses;

/// State of a connection after an event.
#[derive(PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// The connection has ended: the caller drops the socket.
    Closed,
    /// The connection waits for the next event.
    Open,
}

/// A client's socket and the number of bytes still to send.
pub(crate) struct Connection {
    socket: OwnedFd,
    request_ends: RequestEnds,
    unsent_bytes: usize,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, request_ends: RequestEnds::default(), unsent_bytes: 0 }
    }

    /// Receives and sends until the socket would block. `ends` is `true` if the client has closed its side or
    /// the connection broke. If `ends` is `true`, a short read does not mean that the socket is empty,
    /// because this function has not read the end of the stream yet.
    pub(crate) fn drive(&mut self, ends: bool, responses: &Responses, input: &mut [u8]) -> ConnectionState {
        loop {
            match self.send_unsent(responses) {
                Ok(()) => {}
                // Reads no further requests until the client has read its responses.
                Err(Errno::AGAIN) => return ConnectionState::Open,
                Err(_) => return ConnectionState::Closed,
            }
            match rustix::net::recv(&self.socket, &mut *input, RecvFlags::empty()) {
                Ok((0, _)) => return ConnectionState::Closed,
                Ok((n, _)) => {
                    self.unsent_bytes = responses.bytes(self.request_ends.count(&input[..n]));
                    let drained = n < input.len() && !ends;
                    if drained && self.send_unsent(responses).is_ok() {
                        return ConnectionState::Open;
                    }
                }
                Err(Errno::AGAIN) => return ConnectionState::Open,
                Err(Errno::INTR) => {}
                Err(_) => return ConnectionState::Closed,
            }
        }
    }

    fn send_unsent(&mut self, responses: &Responses) -> Result<(), Errno> {
        while self.unsent_bytes > 0 {
            match rustix::net::send(&self.socket, responses.unsent(self.unsent_bytes), SendFlags::NOSIGNAL) {
                Ok(n) => self.unsent_bytes -= n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
