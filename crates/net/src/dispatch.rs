//! Assigns accepted connections to workers.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use tokio::sync::mpsc::UnboundedSender;

use crate::accept::{ListeningSocket, accept};
use crate::address::ClientAddr;
use crate::balance::{Assigned, Balance};
use crate::bind::ListenerValue;
use crate::listening::{Command, Listening};
use crate::stream::Stream;
use crate::worker::{ConnectionGuard, Worker, spawn};

/// An accepted connection that was assigned to this worker.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: Stream,
    /// The address of the client.
    pub client: ClientAddr,
    /// The number of the listener that accepted the connection: the index of the listener in the list for
    /// [`Workers::start`](crate::Workers::start), or the number that was passed to
    /// [`LiveWorkers::listen`](crate::LiveWorkers::listen).
    pub listener: usize,
    /// Counts the connection as open. Keep the guard while the connection is open.
    pub guard: ConnectionGuard,
}

/// Data with which one worker passes connections to the other workers.
pub(crate) struct Share {
    pub(crate) index: usize,
    /// `true` if the worker sends data in batches.
    pub(crate) is_batching: bool,
    pub(crate) balance: Balance,
    pub(crate) commands: Vec<UnboundedSender<Command>>,
}

/// The listeners of one worker.
pub(crate) struct Dispatcher<T> {
    worker: Rc<Worker>,
    share: Rc<Share>,
    /// The function that serves a connection.
    serve: Rc<T>,
    /// The number and the socket of each listener.
    sockets: Vec<(usize, Rc<ListeningSocket>)>,
}

impl<T: Fn(Accepted) + 'static> Dispatcher<T> {
    pub(crate) fn new(worker: Rc<Worker>, share: Share, serve: T) -> Self {
        Self { worker, share: Rc::new(share), serve: Rc::new(serve), sockets: Vec::new() }
    }

    /// Starts a task that accepts connections on a socket.
    pub(crate) fn listen(&mut self, listening: Listening) {
        let Listening { socket, address, listener, kept, is_deferred } = listening;
        let socket = Rc::new(ListeningSocket::new(socket, is_deferred));
        self.sockets.push((listener, socket.clone()));
        let (worker, share, serve) = (self.worker.clone(), self.share.clone(), self.serve.clone());
        let accepting = worker.accepting();
        spawn(async move {
            let take = |stream, client| dispatch(stream, client, (listener, &kept), &worker, &share, &*serve);
            accept(&socket, &address, take).await;
            drop(accepting);
        });
    }

    /// Changes whether a listener accepts a connection only after data has arrived.
    pub(crate) fn set_deferred(&self, listener: usize, is_deferred: bool) {
        let sockets = self.sockets.iter().filter(|(of, _)| *of == listener);
        sockets.for_each(|(_, socket)| socket.set_deferred(is_deferred));
    }

    /// Stops a listener. The listener first accepts the connections that the kernel has already completed.
    pub(crate) fn stop(&mut self, listener: usize) {
        self.sockets.extract_if(.., |(of, _)| *of == listener).for_each(|(_, socket)| socket.stop());
    }

    /// Stops all listeners like [`stop`](Self::stop).
    pub(crate) fn stop_all(&mut self) {
        self.sockets.drain(..).for_each(|(_, socket)| socket.stop());
    }

    /// Serves a connection that another worker accepted.
    pub(crate) fn take(&self, socket: OwnedFd, client: ClientAddr, listener: usize, is_over_limit: bool) {
        let guard = self.worker.guard(listener, is_over_limit);
        (self.serve)(Accepted { stream: Stream::accepted(socket, client), client, listener, guard });
    }
}

/// Serves a connection that this worker accepted, or passes the connection to a worker with fewer
/// connections.
fn dispatch(
    stream: Stream,
    client: ClientAddr,
    (listener, kept): (usize, &Option<ListenerValue>),
    worker: &Rc<Worker>,
    share: &Share,
    serve: &impl Fn(Accepted),
) {
    let Some(Assigned { worker: chosen, is_over_limit }) = share.balance.assign(share.index) else { return };
    if chosen == share.index {
        return serve(Accepted { stream, client, listener, guard: worker.guard(listener, is_over_limit) });
    }
    let is_sent = stream.into_socket().is_ok_and(|socket| {
        let kept = kept.clone();
        share.commands[chosen].send(Command::Take { socket, client, listener, is_over_limit, kept }).is_ok()
    });
    if !is_sent {
        // The chosen worker has panicked. Its connections, including this one, are closed.
        share.balance.release(chosen);
    }
}
