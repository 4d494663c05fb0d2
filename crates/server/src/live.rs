//! The parts of a server that can be replaced while it runs.
//!
//! Connections keep the limits, timeouts and trusted proxies with which they were accepted. Workers check
//! once for each new connection if these have changed; requests cost nothing more.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use thruway_net::{BindError, Bound, ListenAddr, LiveWorkers, WorkersConfig, bind};

use crate::config::Config;
use crate::listener::Listener;
use crate::record::Recorder;

/// A server that runs, to be told what else it should do. Clones are of the same server.
#[derive(Clone, Debug)]
pub struct LiveServer {
    serving: LiveServing,
    places: Arc<Mutex<Vec<Place>>>,
    workers: LiveWorkers,
}

/// Listeners that are there or can be there: see [`LiveServer::bind`].
#[derive(Debug)]
pub struct BoundListeners(Vec<(Listener, Socket)>);

/// The settings for new connections, shared by all workers.
pub(crate) type LiveServing = Arc<ArcSwap<Serving>>;

/// The settings for new connections.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) config: Arc<Config>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// The listeners by number.
    pub(crate) listeners: Vec<Slot>,
}

/// A listener. `None` when it was removed and all its connections have ended. All users of its number share
/// the slot.
pub(crate) type Slot = Arc<ArcSwapOption<Listener>>;

/// Empties the slot of a listener after no worker accepts for it. Its connections keep their settings until
/// they end.
struct Release(Slot);

/// One of the listeners, in the order in which they were given.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its number.
    listener: usize,
    /// The requested address.
    wanted: ListenAddr,
    /// The actual address, with a real port in place of 0.
    address: ListenAddr,
}

#[derive(Debug)]
enum Socket {
    /// It is listened there already.
    Kept(Place),
    New(Bound),
}

impl LiveServer {
    pub(crate) fn new(serving: LiveServing, places: Vec<Place>, workers: LiveWorkers) -> Self {
        Self { serving, places: Arc::new(Mutex::new(places)), workers }
    }

    /// Returns the addresses of the listeners in their order, with real ports in place of 0.
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.places().iter().map(|place| place.address.clone()).collect()
    }

    /// The limits and timeouts of connections that are accepted now.
    pub fn config(&self) -> Arc<Config> {
        self.serving.load().config.clone()
    }

    /// Listens where it is not listened yet. Nothing is accepted there before [`replace`](Self::replace).
    ///
    /// # Errors
    /// An address cannot be listened on; then nothing has changed.
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

    /// Uses `config` and `listeners` for connections that are accepted from now on. Listeners that are not
    /// among them accept no more, and their connections end after the accepted requests.
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
        let is_gone = |place: &&Place| wanted.iter().all(|wanted| wanted.listener != place.listener);
        for Place { listener, address, .. } in places.iter().filter(is_gone) {
            tracing::info!(%address, "no longer listening");
            self.workers.stop_listening(*listener);
        }
        *places = wanted;
    }

    /// Gives records of requests to `recorder` from now on; for connections that there are, nothing changes.
    pub fn record(&self, recorder: Option<&Arc<dyn Recorder>>) {
        self.serving.rcu(|serving| Serving { recorder: recorder.cloned(), ..Serving::clone(serving) });
    }

    /// Lets there be so many connections, or, if `None`, as many as descriptors allow: see
    /// [`Server::connections_max`](crate::Server::connections_max).
    pub fn set_connections_max(&self, connections: Option<usize>) {
        let default = || WorkersConfig::default().connections_max;
        self.workers.set_connections_max(connections.unwrap_or_else(default));
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serving {
    /// Puts `listener` where it belongs. A socket that is new goes to `new`.
    fn place(&mut self, listener: Listener, socket: Socket, new: &mut Vec<(usize, Bound)>) -> Place {
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
                let place = Place::new(number, &listener, &bound);
                let (slot, bound) = slot(listener, bound);
                self.listeners.push(slot);
                new.push((number, bound));
                place
            }
        }
    }
}

/// A slot for the listener that listens there.
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

impl Place {
    pub(crate) fn new(listener: usize, wanted: &Listener, bound: &Bound) -> Self {
        Self { listener, wanted: wanted.address.clone(), address: bound.address().clone() }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// Connections that the kernel keeps for each socket until they are accepted; it caps this at
/// `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;
