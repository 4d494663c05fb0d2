//! A connection: receives, counts and sends until the socket would block.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::answers::Answers;
use crate::request_ends::RequestEnds;

/// State of a connection after an event.
#[derive(PartialEq, Eq)]
pub(crate) enum State {
    /// The connection has ended: the caller drops the socket.
    Closed,
    /// The connection waits for the next event.
    Open,
}

/// A client's socket and the number of bytes still to send.
pub(crate) struct Connection {
    socket: OwnedFd,
    request_ends: RequestEnds,
    owed_bytes: usize,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, request_ends: RequestEnds::default(), owed_bytes: 0 }
    }

    /// Does everything that the socket allows now. `ends` is `true` if the client has closed its side or the
    /// connection broke. A short read then does not mean that the socket is empty: the end is still unread.
    pub(crate) fn drive(&mut self, ends: bool, answers: &Answers, input: &mut [u8]) -> State {
        loop {
            match self.send_owed(answers) {
                Ok(()) => {}
                // Reads no further requests until the client has read its responses.
                Err(Errno::AGAIN) => return State::Open,
                Err(_) => return State::Closed,
            }
            match rustix::net::recv(&self.socket, &mut *input, RecvFlags::empty()) {
                Ok((0, _)) => return State::Closed,
                Ok((n, _)) => {
                    self.owed_bytes = answers.bytes(self.request_ends.count(&input[..n]));
                    let drained = n < input.len() && !ends;
                    if drained && self.send_owed(answers).is_ok() {
                        return State::Open;
                    }
                }
                Err(Errno::AGAIN) => return State::Open,
                Err(Errno::INTR) => {}
                Err(_) => return State::Closed,
            }
        }
    }

    fn send_owed(&mut self, answers: &Answers) -> Result<(), Errno> {
        while self.owed_bytes > 0 {
            match rustix::net::send(&self.socket, answers.owed(self.owed_bytes), SendFlags::NOSIGNAL) {
                Ok(n) => self.owed_bytes -= n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
