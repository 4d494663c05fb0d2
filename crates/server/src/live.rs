//! The parts of a server that can be replaced while it runs.
//!
//! Open connections keep their limits, timeouts and trusted proxies. A worker checks for new settings when it
//! accepts a connection. It checks for a new handler after each read, before it parses the requests.

use std::cell::{Ref, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use thruway_net::{BindError, Bound, ListenAddr, LiveWorkers, WorkersConfig, bind, spawn};
use thruway_telemetry::Tracer;
use tokio::sync::watch;

use crate::config::Config;
use crate::handler::{Handler, IntoHandler};
use crate::listener::Listener;
use crate::record::Recorder;

/// A handle that changes a running server. Clones refer to the same server.
#[derive(Clone)]
pub struct LiveServer {
    handler: LiveHandler,
    serving: LiveServing,
    entries: Arc<Mutex<Vec<ListenerEntry>>>,
    workers: LiveWorkers,
}

/// Listeners with bound sockets: see [`LiveServer::bind`].
#[derive(Debug)]
pub struct BoundListeners(Vec<(Listener, Socket)>);

/// Channel that sends the current handler of a server to all workers.
pub(crate) type LiveHandler = watch::Sender<Arc<dyn Handler>>;

/// The current handler of a server, for one worker.
pub(crate) struct WorkerHandler(RefCell<Latest>);

struct Latest {
    changes: watch::Receiver<Arc<dyn Handler>>,
    handler: Arc<dyn Handler>,
}

/// The settings for new connections, shared by all workers.
pub(crate) type LiveServing = Arc<ArcSwap<Serving>>;

/// The settings for new connections.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) config: Arc<Config>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The slots of the listeners. The index of a slot is the number of its listener.
    pub(crate) listeners: Vec<Slot>,
}

/// The slot of a listener. All workers share it. The slot becomes empty after the listener was removed and a
/// driver has received its last accepted connection.
pub(crate) type Slot = Arc<ArcSwapOption<Listener>>;

/// Empties the slot of a listener when no worker accepts connections for it anymore. Open connections of the
/// listener keep their settings.
struct Release(Slot);

/// The number and the addresses of a listener.
#[derive(Clone, Debug)]
pub(crate) struct ListenerEntry {
    /// Number of the listener.
    listener: usize,
    /// The requested address.
    wanted: ListenAddr,
    /// The address on which the server listens. In place of port 0, it contains the actual port.
    address: ListenAddr,
}

#[derive(Debug)]
enum Socket {
    /// The existing socket of a current listener.
    Kept(ListenerEntry),
    New(Bound),
}

impl LiveServer {
    pub(crate) fn new(
        handler: LiveHandler,
        serving: LiveServing,
        entries: Vec<ListenerEntry>,
        workers: LiveWorkers,
    ) -> Self {
        Self { handler, serving, entries: Arc::new(Mutex::new(entries)), workers }
    }

    /// Returns the addresses of the listeners in the order of the configuration. In place of port 0, an
    /// address contains the actual port.
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.entries().iter().map(|entry| entry.address.clone()).collect()
    }

    /// Returns the limits and timeouts for new connections.
    pub fn config(&self) -> Arc<Config> {
        self.serving.load().config.clone()
    }

    /// Binds the addresses of `listeners` on which the server does not listen yet. The server accepts no
    /// connections there before [`replace`](Self::replace).
    ///
    /// # Errors
    /// An address cannot be bound. In this case, the server continues unchanged.
    pub fn bind(&self, listeners: Vec<Listener>) -> Result<BoundListeners, BindError> {
        let mut present = self.entries().clone();
        let socket = |listener: Listener| {
            let kept = present.iter().position(|entry| entry.wanted == listener.address);
            let socket = match kept {
                Some(entry) => Socket::Kept(present.remove(entry)),
                None => Socket::New(bind(&listener.address, self.workers.count(), BACKLOG)?),
            };
            Ok((listener, socket))
        };
        listeners.into_iter().map(socket).collect::<Result<_, _>>().map(BoundListeners)
    }

    /// Uses `config` and `listeners` for new connections. Listeners that are missing in `listeners` accept no
    /// more connections. Their open connections end after the accepted requests.
    pub fn replace(&self, config: Config, listeners: BoundListeners) {
        let mut entries = self.entries();
        let before = self.serving.load_full();
        let mut serving = Serving {
            config: if *before.config == config { before.config.clone() } else { Arc::new(config) },
            recorder: before.recorder.clone(),
            tracer: before.tracer.clone(),
            // A removed listener keeps its slot until the workers have passed its accepted connections to
            // drivers.
            listeners: before.listeners.clone(),
        };
        let (mut wanted, mut new) = (Vec::new(), Vec::new());
        for (listener, socket) in listeners.0 {
            if let Socket::Kept(entry) = &socket {
                self.workers.set_deferred(entry.listener, listener.client_speaks_first());
            }
            wanted.push(serving.assign_slot(listener, socket, &mut new));
        }
        self.serving.store(Arc::new(serving));
        for (number, bound) in new {
            tracing::info!(address = %bound.address(), "listening");
            self.workers.listen(number, bound);
        }
        let is_gone = |entry: &&ListenerEntry| wanted.iter().all(|wanted| wanted.listener != entry.listener);
        for ListenerEntry { listener, address, .. } in entries.iter().filter(is_gone) {
            tracing::info!(%address, "no longer listening");
            self.workers.stop_listening(*listener);
        }
        *entries = wanted;
    }

    /// Lets `handler` answer all further requests, also on open connections. The previous handler completes
    /// the requests that it has begun to answer.
    pub fn replace_handler<M>(&self, handler: impl IntoHandler<M>) {
        self.handler.send_replace(handler.into_handler());
    }

    /// Passes the records of new connections to `recorder`. Open connections keep their recorder.
    pub fn record(&self, recorder: Option<&Arc<dyn Recorder>>) {
        self.serving.rcu(|serving| Serving { recorder: recorder.cloned(), ..Serving::clone(serving) });
    }

    /// Traces the requests of new connections with `tracer`. Open connections keep their tracer.
    pub fn trace(&self, tracer: Option<&Arc<Tracer>>) {
        self.serving.rcu(|serving| Serving { tracer: tracer.cloned(), ..Serving::clone(serving) });
    }

    /// Sets the maximum number of connections. `None` sets the default, which depends on the descriptor
    /// limit: see [`Server::connections_max`](crate::Server::connections_max).
    pub fn set_connections_max(&self, connections: Option<usize>) {
        let default = || WorkersConfig::default().connections_max;
        self.workers.set_connections_max(connections.unwrap_or_else(default));
    }

    fn entries(&self) -> MutexGuard<'_, Vec<ListenerEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerHandler {
    /// Returns a handler for a worker, which follows the changes of `live`.
    pub(crate) fn following(live: &LiveHandler) -> Rc<Self> {
        let mut changes = live.subscribe();
        let handler = Rc::new(Self::new(live.subscribe()));
        let followed = handler.clone();
        // Without this task, a worker that gets no requests would keep the previous handler and its upstreams
        // in memory.
        spawn(async move {
            while changes.changed().await.is_ok() {
                followed.renew();
            }
        });
        handler
    }

    /// Returns a handler that never changes.
    pub(crate) fn constant(handler: Arc<dyn Handler>) -> Self {
        Self::new(watch::channel(handler).1)
    }

    fn new(mut changes: watch::Receiver<Arc<dyn Handler>>) -> Self {
        let handler = changes.borrow_and_update().clone();
        Self(RefCell::new(Latest { changes, handler }))
    }

    /// Replaces the handler if a newer one exists. A connection calls this after each read, so that the
    /// requests of a read share the cost, and each request gets the handler that is current on arrival.
    #[inline]
    pub(crate) fn renew(&self) {
        if self.0.borrow().changes.has_changed().unwrap_or(false) {
            self.0.borrow_mut().renew();
        }
    }

    /// Returns the handler since the last [`renew`](Self::renew).
    #[inline]
    pub(crate) fn current(&self) -> Ref<'_, dyn Handler> {
        Ref::map(self.0.borrow(), |latest| &*latest.handler)
    }
}

impl Latest {
    #[cold]
    fn renew(&mut self) {
        self.handler = self.changes.borrow_and_update().clone();
    }
}

impl Serving {
    /// Assigns a slot to `listener`. If the socket is new, adds it to `new`.
    fn assign_slot(
        &mut self,
        listener: Listener,
        socket: Socket,
        new: &mut Vec<(usize, Bound)>,
    ) -> ListenerEntry {
        match socket {
            Socket::Kept(entry) => {
                let slot = &self.listeners[entry.listener];
                let listener = listener.at(&entry.address);
                let listener = match slot.load_full() {
                    Some(before) => listener.in_place_of(&before),
                    None => listener,
                };
                slot.store(Some(Arc::new(listener)));
                entry
            }
            Socket::New(bound) => {
                let number = self.listeners.len();
                let entry = ListenerEntry::new(number, &listener, &bound);
                let (slot, bound) = slot(listener, bound);
                self.listeners.push(slot);
                new.push((number, bound));
                entry
            }
        }
    }
}

/// Creates the slot of a listener. Returns the slot and the bound socket. The slot becomes empty when no
/// worker uses the socket anymore.
pub(crate) fn slot(listener: Listener, bound: Bound) -> (Slot, Bound) {
    let bound = if listener.client_speaks_first() { bound.deferred() } else { bound };
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

impl fmt::Debug for LiveServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { serving, entries, workers, .. } = self;
        f.debug_struct("LiveServer")
            .field("serving", serving)
            .field("entries", entries)
            .field("workers", workers)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// Length of the accept queue of each socket. The kernel limits it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;
