//! Commands to running workers: start to listen, stop listening, serve a connection, and shut down
//! gracefully.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::address::{ClientAddr, ListenAddr};
use crate::balance::Balance;
use crate::bind::{Bound, ListenerValue, Registration};

/// A listening socket of one worker, with the address and the number of the listener.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    pub(crate) address: ListenAddr,
    pub(crate) listener: usize,
    pub(crate) kept: Option<ListenerValue>,
    /// `true` if a connection is accepted only after data has arrived: see [`Bound::deferred`].
    pub(crate) is_deferred: bool,
}

/// A command from another thread to a worker thread.
#[derive(Debug)]
pub(crate) enum Command {
    Take {
        socket: OwnedFd,
        client: ClientAddr,
        listener: usize,
        is_over_limit: bool,
        kept: Option<ListenerValue>,
    },
    Listen(Listening),
    SetDeferred {
        listener: usize,
        is_deferred: bool,
    },
    StopListening {
        listener: usize,
    },
    Drain {
        within: Duration,
        /// Closed when the worker may end.
        hold: UnboundedReceiver<Infallible>,
    },
}

/// The registrations of the listening addresses, by listener number. Each registration is kept until its
/// listener is removed or the last worker has ended.
#[derive(Clone, Default, Debug)]
pub(crate) struct Registrations(Arc<Mutex<Vec<(usize, Registration)>>>);

impl Registrations {
    fn keep(&self, listener: usize, place: Registration) {
        self.lock().push((listener, place));
    }

    fn remove(&self, listener: usize) {
        self.lock().retain(|(of, _)| *of != listener);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Registration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle that adds and removes listeners of running workers. Clones refer to the same workers.
#[derive(Clone, Debug)]
pub struct LiveWorkers {
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    places: Registrations,
}

impl LiveWorkers {
    pub(crate) const fn new(
        commands: Vec<UnboundedSender<Command>>,
        balance: Balance,
        places: Registrations,
    ) -> Self {
        Self { commands, balance, places }
    }

    /// Returns the number of workers. A TCP listener needs this number of sockets.
    pub const fn count(&self) -> usize {
        self.commands.len()
    }

    /// Starts to accept connections on `bound`. `listener` is the number of the new listener. Never use the
    /// same number for two listeners.
    pub fn listen(&self, listener: usize, bound: Bound) {
        let (sockets, place) = distribute(listener, bound);
        self.places.keep(listener, place);
        for (commands, listening) in self.commands.iter().zip(sockets) {
            // Sending fails only if the worker has ended. An ended worker accepts no connections.
            let _ = commands.send(Command::Listen(listening));
        }
    }

    /// Changes whether `listener` accepts a connection only after data has arrived: see [`Bound::deferred`].
    pub fn set_deferred(&self, listener: usize, is_deferred: bool) {
        for commands in &self.commands {
            let _ = commands.send(Command::SetDeferred { listener, is_deferred });
        }
    }

    /// Stops accepting connections of `listener`. Each open connection of `listener` closes when all its
    /// accepted requests are answered.
    pub fn stop_listening(&self, listener: usize) {
        self.places.remove(listener);
        for commands in &self.commands {
            let _ = commands.send(Command::StopListening { listener });
        }
    }

    /// Changes the maximum number of connections: see
    /// [`WorkersConfig::connections_max`](crate::WorkersConfig::connections_max).
    pub fn set_connections_max(&self, connections: usize) {
        self.balance.set_connections_max(connections);
    }
}

/// Returns the sockets of a listener: one for each worker, or a single Unix socket. The first worker
/// accepts the connections of a Unix socket and passes them to the other workers.
fn distribute(listener: usize, bound: Bound) -> (impl Iterator<Item = Listening>, Registration) {
    let (kept, is_deferred) = (bound.kept().cloned(), bound.is_deferred());
    let (address, sockets, place) = bound.into_parts();
    let listening = move |socket| {
        let (address, kept) = (address.clone(), kept.clone());
        Listening { socket, address, listener, kept, is_deferred }
    };
    (sockets.into_iter().map(listening), place)
}
