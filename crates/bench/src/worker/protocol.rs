//! A connection of a worker, whatever protocol it has.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::Transport;

use super::dispatch::Worker;
use super::plan::Ticket;

/// A connection with the requests on it, in the version of HTTP that is spoken.
pub(super) trait Spoken<T> {
    /// A connection over `transport`, of which nobody has read or written anything.
    fn new(transport: T, worker: &Worker) -> Self;

    /// When to look at it although nothing has happened.
    fn deadline(&self, worker: &Worker) -> Option<Duration>;

    /// Takes a request, to be sent with the next turn.
    fn ask(&mut self, worker: &Worker, ticket: Ticket);

    /// Reads what has come, sends what may start.
    fn poll(&mut self, cx: &mut Context<'_>, worker: &Worker, lane: usize) -> Poll<Ended>;
}

/// What became of a connection.
pub(super) enum Ended {
    /// The load is over.
    Over,
    /// It has ended; what it owed is recorded.
    Closed,
    /// The server has ended it after an answer, as it had said; it acts on none of these requests (RFC 9112 §9.6, RFC 9113 §6.8).
    Unhandled(VecDeque<Ticket>),
}

/// Writes what waits in `output`, of which so much is `written`; what the server does not take now, later.
#[inline]
pub(super) fn poll_flush<T: Transport>(
    transport: &mut T,
    output: &mut Vec<u8>,
    written: &mut usize,
    cx: &mut Context<'_>,
) -> io::Result<()> {
    while *written < output.len() {
        match transport.poll_write(cx, &[IoSlice::new(&output[*written..])]) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(count)) => *written += count,
            Poll::Ready(Err(error)) => return Err(error),
        }
    }
    output.clear();
    *written = 0;
    Ok(())
}
