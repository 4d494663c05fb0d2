//! The parts of a server that can be replaced while it runs.
//!
//! Open connections keep their limits, timeouts and trusted proxies. Workers check for changes once for each
//! new connection, so there is no cost for each request.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use thruway_net::{BindError, Bound, ListenAddr, LiveWorkers, WorkersConfig, bind};

use crate::config::Config;
use crate::listener::Listener;
use crate::record::Recorder;

/// A handle that changes a running server. Clones refer to the same server.
#[derive(Clone, Debug)]
pub struct LiveServer {
    serving: LiveServing,
    places: Arc<Mutex<Vec<ListenerEntry>>>,
    workers: LiveWorkers,
}

/// Listeners with bound sockets: see [`LiveServer::bind`].
#[derive(Debug)]
pub struct BoundListeners(Vec<(Listener, Socket)>);

/// The settings for new connections, shared by all workers.
pub(crate) type LiveServing = Arc<ArcSwap<Serving>>;

/// The settings for new connections.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) config: Arc<Config>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// The listeners, by their number.
    pub(crate) listeners: Vec<Slot>,
}

/// A listener. `None` after it was removed and all its connections have ended. All users of its number share
/// the slot.
pub(crate) type Slot = Arc<ArcSwapOption<Listener>>;

/// Empties the slot of a listener when no worker accepts for it anymore. Its connections keep their settings
/// until they end.
struct Release(Slot);

/// A listener, in the order of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct ListenerEntry {
    /// Number of the listener.
    listener: usize,
    /// The requested address.
    wanted: ListenAddr,
    /// The actual address, with a real port in place of 0.
    address: ListenAddr,
}

#[derive(Debug)]
enum Socket {
    /// The existing socket of a current listener.
    Kept(ListenerEntry),
    New(Bound),
}

impl LiveServer {
    pub(crate) fn new(serving: LiveServing, places: Vec<ListenerEntry>, workers: LiveWorkers) -> Self {
        Self { serving, places: Arc::new(Mutex::new(places)), workers }
    }

    /// Returns the addresses of the listeners in order, with real ports in place of 0.
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.places().iter().map(|place| place.address.clone()).collect()
    }

    /// Returns the limits and timeouts for new connections.
    pub fn config(&self) -> Arc<Config> {
        self.serving.load().config.clone()
    }

    /// Binds the addresses without a listener. They accept no connections before [`replace`](Self::replace).
    ///
    /// # Errors
    /// An address cannot be bound. Then nothing has changed.
    pub fn bind(&self, listeners: Vec<Listener>) -> Result<BoundListeners, BindError> {
        let mut present = self.places().clone();
        let socket = |listener: Listener| {
            let kept = present.iter().position(|place| place.wanted == listener.address);
            let socket = match kept {
                Some(place) => Socket::Kept(present.remove(place)),
                None => Socket::New(bind(&listener.address, self.workers.count(), BACKLOG)?),
            };
            Ok((listener, socket))
        };
        listeners.into_iter().map(socket).collect::<Result<_, _>>().map(BoundListeners)
    }

    /// Uses `config` and `listeners` for new connections. Removed listeners accept no more connections, and
    /// their connections end after the accepted requests.
    pub fn replace(&self, config: Config, listeners: BoundListeners) {
        let mut places = self.places();
        let before = self.serving.load_full();
        let mut serving = Serving {
            config: if *before.config == config { before.config.clone() } else { Arc::new(config) },
            recorder: before.recorder.clone(),
            // Removed listeners stay until the workers have handled their accepted connections.
            listeners: before.listeners.clone(),
        };
        let (mut wanted, mut new) = (Vec::new(), Vec::new());
        for (listener, socket) in listeners.0 {
            wanted.push(serving.place(listener, socket, &mut new));
        }
        self.serving.store(Arc::new(serving));
        for (number, bound) in new {
            tracing::info!(address = %bound.address(), "listening");
            self.workers.listen(number, bound);
        }
        let is_gone = |place: &&ListenerEntry| wanted.iter().all(|wanted| wanted.listener != place.listener);
        for ListenerEntry { listener, address, .. } in places.iter().filter(is_gone) {
            tracing::info!(%address, "no longer listening");
            self.workers.stop_listening(*listener);
        }
        *places = wanted;
    }

    /// Passes the records of new connections to `recorder`. Open connections keep their recorder.
    pub fn record(&self, recorder: Option<&Arc<dyn Recorder>>) {
        self.serving.rcu(|serving| Serving { recorder: recorder.cloned(), ..Serving::clone(serving) });
    }

    /// Sets the maximum number of connections. `None` for the descriptor limit: see
    /// [`Server::connections_max`](crate::Server::connections_max).
    pub fn set_connections_max(&self, connections: Option<usize>) {
        let default = || WorkersConfig::default().connections_max;
        self.workers.set_connections_max(connections.unwrap_or_else(default));
    }

    fn places(&self) -> MutexGuard<'_, Vec<ListenerEntry>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serving {
    /// Assigns a slot to `listener`. Adds a new socket to `new`.
    fn place(&mut self, listener: Listener, socket: Socket, new: &mut Vec<(usize, Bound)>) -> ListenerEntry {
        match socket {
            Socket::Kept(place) => {
                let slot = &self.listeners[place.listener];
                let listener = listener.at(&place.address);
                let listener = match slot.load_full() {
                    Some(before) => listener.in_place_of(&before),
                    None => listener,
                };
                slot.store(Some(Arc::new(listener)));
                place
            }
            Socket::New(bound) => {
                let number = self.listeners.len();
                let place = ListenerEntry::new(number, &listener, &bound);
                let (slot, bound) = slot(listener, bound);
                self.listeners.push(slot);
                new.push((number, bound));
                place
            }
        }
    }
}

/// Returns the slot of a listener with its bound socket.
pub(crate) fn slot(listener: Listener, bound: Bound) -> (Slot, Bound) {
    let slot = Slot::new(ArcSwapOption::from_pointee(listener.at(bound.address())));
    let bound = bound.keeping(Arc::new(Release(slot.clone())));
    (slot, bound)
}

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(None);
    }
}

impl ListenerEntry {
    pub(crate) fn new(listener: usize, wanted: &Listener, bound: &Bound) -> Self {
        Self { listener, wanted: wanted.address.clone(), address: bound.address().clone() }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// Length of the accept queue of each socket. The kernel limits it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;
