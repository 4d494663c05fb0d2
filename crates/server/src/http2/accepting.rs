//! Requests as the library gives them: all that are there, before any of them is answered.
//!
//! Each time that it is asked for a request it writes what it was given since it was asked last. To write all
//! answers together costs it less.

use std::cell::Cell;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Connection, SendResponse};
use thruway_net::{Transport, Worker};

use super::wire::Wire;

/// A request, and where its answer goes.
pub(super) type Accepted = (http::Request<RecvStream>, SendResponse<Bytes>);

/// The room of a worker for requests that are taken together.
#[derive(Default)]
struct Room(Cell<Vec<Accepted>>);

/// Result of accepting requests.
#[derive(Debug)]
pub(super) enum Accepting {
    /// There are no more now.
    Done,
    /// There may be more.
    GoesOn,
    /// The connection has ended, for this if there was an error.
    Ended(Option<h2::Error>),
}

/// Accepts the requests that have arrived. [Give their buffers back](give_back) afterwards.
pub(super) fn accept<T: Transport>(
    library: &mut Connection<Wire<T>, Bytes>,
    worker: &Worker,
    cx: &mut Context<'_>,
) -> (Vec<Accepted>, Accepting) {
    let mut accepted = worker.state::<Room>().0.take();
    while accepted.len() < ACCEPTED_MAX {
        let accepting = match library.poll_accept(cx) {
            Poll::Ready(Some(Ok(request))) => {
                accepted.push(request);
                continue;
            }
            Poll::Pending => Accepting::Done,
            Poll::Ready(Some(Err(error))) => Accepting::Ended(Some(error)),
            Poll::Ready(None) => Accepting::Ended(None),
        };
        return (accepted, accepting);
    }
    (accepted, Accepting::GoesOn)
}

/// Keeps the room of requests that were taken for those that are next, on whichever connection of the worker.
pub(super) fn give_back(worker: &Worker, room: Vec<Accepted>) {
    debug_assert!(room.is_empty(), "requests belong to their connection");
    worker.state::<Room>().0.set(room);
}

/// Maximum number of requests that are accepted before the connection answers them.
const ACCEPTED_MAX: usize = 100;
