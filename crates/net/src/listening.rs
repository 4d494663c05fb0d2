//! What workers are told while they run: where to accept connections, and when to end.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::address::{ClientAddr, ListenAddr};
use crate::balance::Balance;
use crate::bind::{Bound, Kept, Place};

/// A listening socket of one worker, its address, and its listener's number.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    pub(crate) address: ListenAddr,
    pub(crate) listener: usize,
    pub(crate) kept: Option<Kept>,
}

/// What a worker is told by others.
#[derive(Debug)]
pub(crate) enum Command {
    Take { socket: OwnedFd, client: ClientAddr, listener: usize, is_over_limit: bool, kept: Option<Kept> },
    Listen(Listening),
    StopListening { listener: usize },
    Drain { within: Duration },
}

/// Where it is listened, by the numbers of the listeners: kept until these are removed, or the last worker
/// has ended.
#[derive(Clone, Default, Debug)]
pub(crate) struct Places(Arc<Mutex<Vec<(usize, Place)>>>);

impl Places {
    fn keep(&self, listener: usize, place: Place) {
        self.lock().push((listener, place));
    }

    fn remove(&self, listener: usize) {
        self.lock().retain(|(of, _)| *of != listener);
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Place)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What can be changed of workers that run. Clones are of the same.
#[derive(Clone, Debug)]
pub struct LiveWorkers {
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    places: Places,
}

impl LiveWorkers {
    pub(crate) const fn new(
        commands: Vec<UnboundedSender<Command>>,
        balance: Balance,
        places: Places,
    ) -> Self {
        Self { commands, balance, places }
    }

    /// How many there are, which is how many sockets a TCP listener needs.
    pub const fn count(&self) -> usize {
        self.commands.len()
    }

    /// Accepts connections on `bound` too, as of the listener of this number. No other must ever have had it.
    pub fn listen(&self, listener: usize, bound: Bound) {
        let (sockets, place) = deal_out(listener, bound);
        self.places.keep(listener, place);
        for (commands, listening) in self.commands.iter().zip(sockets) {
            // A worker that has ended accepts nothing.
            let _ = commands.send(Command::Listen(listening));
        }
    }

    /// Accepts no more connections of this listener, and drains those that there are: each ends when what was
    /// accepted is answered.
    pub fn stop_listening(&self, listener: usize) {
        self.places.remove(listener);
        for commands in &self.commands {
            let _ = commands.send(Command::StopListening { listener });
        }
    }

    /// Lets there be so many connections: see
    /// [`WorkersConfig::connections_max`](crate::WorkersConfig::connections_max).
    pub fn set_connections_max(&self, connections: usize) {
        self.balance.set_connections_max(connections);
    }
}

/// A socket for each worker, if it is a TCP listener. A Unix listener has one socket in all: the first worker
/// accepts for everybody.
fn deal_out(listener: usize, bound: Bound) -> (impl Iterator<Item = Listening>, Place) {
    let kept = bound.kept().cloned();
    let (address, sockets, place) = bound.into_parts();
    let listening =
        move |socket| Listening { socket, address: address.clone(), listener, kept: kept.clone() };
    (sockets.into_iter().map(listening), place)
}
