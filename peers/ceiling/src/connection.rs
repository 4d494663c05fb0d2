//! One connection: receive, count, send, until the socket has nothing more.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::answers::Answers;
use crate::request_ends::RequestEnds;

/// What a connection waits for.
#[derive(PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing more to do: the socket is to be dropped.
    Closed,
    /// The next event.
    Open,
}

/// A client's socket and what is owed to it.
pub(crate) struct Connection {
    socket: OwnedFd,
    request_ends: RequestEnds,
    owed_bytes: usize,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, request_ends: RequestEnds::default(), owed_bytes: 0 }
    }

    /// Does all that the socket allows now. With `ends` the client has closed its side, or the connection
    /// broke: then a short read does not mean that the socket is empty, the end is still to be read.
    pub(crate) fn drive(&mut self, ends: bool, answers: &Answers, input: &mut [u8]) -> State {
        loop {
            match self.send_owed(answers) {
                Ok(()) => {}
                // Not read further: the client is to take its answers first.
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
