//! A server, which consists of listeners, workers and a handler.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use arc_swap::ArcSwap;
use thruway_net::{
    Accepted, BindError, Bound, DrainHandle, InvalidListenAddr, ListenAddr, TerminationSignals, Worker,
    WorkerLoad, Workers, WorkersConfig, WorkersHold, bind,
};
use thruway_telemetry::Tracer;

use crate::config::Config;
use crate::drivers::Drivers;
use crate::handler::{Handler, IntoHandler};
use crate::listener::Listener;
use crate::live::{
    BACKLOG, ListenerEntry, LiveHandler, LiveServer, LiveServing, Serving, WorkerHandler, slot,
};
use crate::record::Recorder;

/// A builder for a server.
///
/// ```
/// use thruway_server::Server;
///
/// # fn main() -> Result<(), thruway_server::ServerError> {
/// let server = Server::new(|| "hello\n").workers(2).listen("127.0.0.1:0")?.start()?;
/// println!("listening on {}", server.addresses()[0]);
/// server.drain(); // `Server::run` drains at SIGTERM instead.
/// server.join();
/// # Ok(())
/// # }
/// ```
pub struct Server {
    handler: Arc<dyn Handler>,
    config: Config,
    workers: WorkersConfig,
    listeners: Vec<Listener>,
    recorder: Option<Arc<dyn Recorder>>,
    tracer: Option<Arc<Tracer>>,
}

/// A running server. It continues to run if this handle is dropped.
pub struct RunningServer {
    workers: Workers,
    addresses: Vec<ListenAddr>,
    live: LiveServer,
}

impl Server {
    /// Creates a server with `handler`, usually a [`Router`](crate::Router).
    pub fn new<M>(handler: impl IntoHandler<M>) -> Self {
        Self {
            handler: handler.into_handler(),
            config: Config::default(),
            workers: WorkersConfig::default(),
            listeners: Vec::new(),
            recorder: None,
            tracer: None,
        }
    }

    /// Adds a listener at `address`: `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`.
    ///
    /// # Errors
    /// `address` cannot be parsed.
    pub fn listen(self, address: &str) -> Result<Self, ServerError> {
        Ok(self.listen_on(address.parse::<ListenAddr>()?))
    }

    /// Adds a listener, from an address or a [`Listener`].
    #[must_use]
    pub fn listen_on(mut self, listener: impl Into<Listener>) -> Self {
        self.listeners.push(listener.into());
        self
    }

    /// Sets the number of worker threads. Default: one per core.
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers.workers = workers;
        self
    }

    /// Sets the maximum number of open connections. Default: the descriptor limit, less a reserve.
    ///
    /// Above this number, the server responds 503 to the first request of a connection. It closes such a
    /// connection if no request arrives within two seconds. At most `connections / 20 + 4` such connections
    /// may be open. The server closes any further connections at once.
    #[must_use]
    pub const fn connections_max(mut self, connections: usize) -> Self {
        self.workers.connections_max = connections;
        self
    }

    /// Sets whether a worker passes several sends to the kernel in one system call. Default `true`: see
    /// [`WorkersConfig::batches_sends`](thruway_net::WorkersConfig::batches_sends).
    #[must_use]
    pub const fn batch_sends(mut self, batches_sends: bool) -> Self {
        self.workers.batches_sends = batches_sends;
        self
    }

    /// Sets limits and timeouts.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Passes a record of each request to `recorder`.
    #[must_use]
    pub fn record(mut self, recorder: impl Recorder) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Creates spans for each request, and passes them to `tracer`.
    #[must_use]
    pub fn trace(mut self, tracer: &Arc<Tracer>) -> Self {
        self.tracer = Some(tracer.clone());
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// There is no address, an address cannot be bound, or the system cannot start a thread.
    pub fn start(self) -> Result<RunningServer, ServerError> {
        if self.listeners.is_empty() {
            return Err(ServerError::NoAddress);
        }
        let count = self.workers.workers.max(1);
        let bound = self
            .listeners
            .iter()
            .map(|listener| bind(&listener.address, count, BACKLOG))
            .collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = bound.iter().map(Bound::address).cloned().collect();
        let places = self.listeners.iter().zip(&bound).enumerate();
        let places =
            places.map(|(number, (listener, bound))| ListenerEntry::new(number, listener, bound)).collect();
        let slots = self.listeners.into_iter().zip(bound).map(|(listener, bound)| slot(listener, bound));
        let (listeners, bound) = slots.unzip();
        let serving = Serving {
            config: Arc::new(self.config),
            recorder: self.recorder,
            tracer: self.tracer,
            listeners,
        };
        let serving = LiveServing::new(ArcSwap::from_pointee(serving));
        let handler = LiveHandler::new(self.handler);
        let (of_workers, handler_of_workers) = (serving.clone(), handler.clone());
        let start = move |worker: &Rc<Worker>| {
            let live = of_workers.clone();
            let handler = WorkerHandler::following(&handler_of_workers);
            let drivers = RefCell::new(Drivers::new(handler, worker.clone(), live.load_full()));
            move |accepted: Accepted| drivers.borrow_mut().serve(accepted, &live)
        };
        let workers = Workers::start(self.workers, bound, start)?;
        let live = LiveServer::new(handler, serving, places, workers.live());
        Ok(RunningServer { workers, addresses, live })
    }

    /// Starts the server. At SIGTERM or SIGINT, the server shuts down gracefully. A second signal ends the
    /// process at once.
    ///
    /// # Errors
    /// Fails for the same reasons as [`start`](Self::start), and if the process cannot handle the signals.
    pub fn run(self) -> Result<(), ServerError> {
        let signals = TerminationSignals::take_over()?;
        let server = self.start()?;
        for address in server.addresses() {
            tracing::info!(%address, "listening");
        }
        server.run_until(signals);
        Ok(())
    }
}

impl RunningServer {
    /// Returns the addresses on which the server listened at its start, in the order of the calls to
    /// `listen`. In place of port 0, an address contains the actual port.
    pub fn addresses(&self) -> &[ListenAddr] {
        &self.addresses
    }

    /// Returns the load of each worker.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.workers.loads()
    }

    /// Returns a handle that changes the server while it runs.
    pub fn live(&self) -> LiveServer {
        self.live.clone()
    }

    /// Returns a handle that can start a graceful shutdown from another thread. While
    /// [`run_until`](Self::run_until) waits, the handle also reports the loads of the workers.
    pub fn drain_handle(&self) -> DrainHandle {
        self.workers.drain_handle()
    }

    /// Starts a graceful shutdown, also called a drain. The server accepts no more connections, completes the
    /// accepted requests, and then closes the open connections.
    pub fn drain(&self) {
        drop(self.drain_and_hold());
    }

    /// Starts a graceful shutdown, as [`drain`](Self::drain) does. The workers run until the returned value is
    /// dropped, but at most for the drain timeout: see [`DrainHandle::drain_and_hold`].
    pub fn drain_and_hold(&self) -> WorkersHold {
        self.drain_handle().drain_and_hold(self.live.config().timeouts.drain)
    }

    /// Waits until the server has ended, which requires a call of [`drain`](Self::drain). Returns the load of
    /// each worker. In the load, `connections` is the number of connections that were still open at the
    /// timeout of the shutdown.
    pub fn join(self) -> Vec<WorkerLoad> {
        self.workers.join().loads
    }

    /// Waits until the server has ended. The first signal starts a graceful shutdown, and the second signal
    /// ends the process at once. When the server has ended, logs and returns the load of each worker.
    pub fn run_until(self, signals: TerminationSignals) -> Vec<WorkerLoad> {
        let (drain, live) = (self.workers.drain_handle(), self.live.clone());
        self.run_until_with(signals, move || drain.drain(live.config().timeouts.drain))
    }

    /// Waits until the server has ended, as [`run_until`](Self::run_until) does. At the first signal, calls
    /// `drain`, which must start the graceful shutdown. Use this function if the program must shut down other
    /// parts together with the server.
    pub fn run_until_with(
        self,
        mut signals: TerminationSignals,
        drain: impl FnOnce() + Send + 'static,
    ) -> Vec<WorkerLoad> {
        thread::spawn(move || {
            signals.wait();
            tracing::info!("draining");
            drain();
            signals.wait();
            std::process::exit(EXIT_AT_ONCE);
        });
        let loads = self.join();
        for (worker, load) in loads.iter().enumerate() {
            let (connections_total, cut_off) = (load.connections_total, load.connections);
            tracing::info!(worker, connections_total, cut_off, "drained");
        }
        loads
    }
}

/// Reason for a failed start.
///
/// The `Debug` output is a message for users, which includes the [hint](Self::hint). So a `main` function
/// that returns this error prints a readable message.
#[non_exhaustive]
pub enum ServerError {
    /// An address cannot be parsed.
    Address(InvalidListenAddr),
    /// An address cannot be bound.
    Bind(BindError),
    /// No address was added.
    NoAddress,
    /// The system cannot create a thread, a reactor or a signal handler.
    System(io::Error),
}

impl From<InvalidListenAddr> for ServerError {
    fn from(error: InvalidListenAddr) -> Self {
        Self::Address(error)
    }
}

impl From<BindError> for ServerError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

impl From<io::Error> for ServerError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl ServerError {
    /// Returns the next step for the user, if known.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Address(_) => Some(InvalidListenAddr::HINT),
            Self::Bind(error) => Some(error.hint()),
            Self::NoAddress => Some("give the server an address with `listen`"),
            Self::System(_) => None,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Bind(error) => error.fmt(f),
            Self::NoAddress => f.write_str("the server has no address to listen on"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\n\nhint: {hint}"))
    }
}

impl std::error::Error for ServerError {}

/// Exit code that shells report for a process that SIGTERM has ended.
const EXIT_AT_ONCE: i32 = 128 + 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_without_address_does_not_start() {
        assert!(matches!(Server::new(|| "nowhere").start(), Err(ServerError::NoAddress)));
    }

    #[test]
    fn bind_error_debug_output_has_message_and_hint() {
        let taken = Server::new(|| "first").workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        let address = taken.addresses()[0].clone();
        let error = Server::new(|| "second").workers(1).listen_on(address).start().err().unwrap();
        let text = format!("{error:?}");
        assert!(text.starts_with(&format!("{error}\n\nhint: ")), "{text}");
        assert!(!text.contains("BindError"), "{text}");
        taken.drain();
        taken.join();
    }
}
