//! Accepts all requests that the HTTP/2 library has received. Only then, the connection handles them.
//!
//! Whenever the connection asks the library for a request, the library first writes pending output. So it is
//! cheaper to accept requests in a batch and write their responses together.

use std::cell::Cell;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Connection, SendResponse};
use thruway_net::{Transport, Worker};

use super::wire::Wire;

/// A request and the handle for its response.
pub(super) type Accepted = (http::Request<RecvStream>, SendResponse<Bytes>);

/// A vector that a worker reuses for batches of requests.
#[derive(Default)]
struct BatchBuffer(Cell<Vec<Accepted>>);

/// Result of accepting requests.
#[derive(Debug)]
pub(super) enum Accepting {
    /// No further requests are available now.
    Done,
    /// More requests may be available.
    Continues,
    /// The connection has ended. Contains the error that has ended it, if any.
    Ended(Option<h2::Error>),
}

/// Accepts the requests that have arrived. The caller must return the vector with [`give_back`] afterwards.
pub(super) fn accept<T: Transport>(
    library: &mut Connection<Wire<T>, Bytes>,
    worker: &Worker,
    cx: &mut Context<'_>,
) -> (Vec<Accepted>, Accepting) {
    let mut accepted = worker.state::<BatchBuffer>().0.take();
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
    (accepted, Accepting::Continues)
}

/// Keeps the empty vector `batch` for later requests, of any connection of the worker.
pub(super) fn give_back(worker: &Worker, batch: Vec<Accepted>) {
    debug_assert!(
        batch.is_empty(),
        "the vector must be empty, because its requests belong to one connection"
    );
    worker.state::<BatchBuffer>().0.set(batch);
}

/// Maximum number of requests that are accepted before the connection answers them.
const ACCEPTED_MAX: usize = 100;
