//! Starts and stops the worker threads.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::MissedTickBehavior;

use crate::balance::{Balance, WorkerLoad};
use crate::bind::Bound;
use crate::clock::Clock;
use crate::dispatch::{Accepted, Dispatcher, Share};
use crate::listening::{Command, LiveWorkers, Registrations};
use crate::sends;
use crate::worker::{Worker, spawn};

/// Settings of the worker threads.
#[derive(Clone, Copy, Debug)]
pub struct WorkersConfig {
    /// Number of worker threads. The default is the number of cores that this process may use.
    pub workers: usize,
    /// Maximum number of open connections in all workers. Workers accept a few connections beyond the
    /// maximum, so that the server can send an error on each of these connections: see
    /// [`is_over_limit`](crate::ConnectionGuard::is_over_limit). The default is the descriptor limit of the
    /// process, minus a reserve for files.
    pub connections_max: usize,
    /// `true` if a worker collects the data that its connections send. After all ready tasks have run, the
    /// worker sends all collected data with one system call (`io_uring`). The default is `true`. Batching
    /// helps most if workers share their cores with clients or upstream servers. If the kernel has no
    /// `io_uring`, each connection sends its data separately.
    pub batches_sends: bool,
}

impl Default for WorkersConfig {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, usize::from),
            connections_max: connections_max(),
            batches_sends: true,
        }
    }
}

/// The running worker threads. Dropping this value does not stop the threads.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    is_draining: Arc<AtomicBool>,
    places: Registrations,
}

/// The result of a graceful shutdown (drain).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drained {
    /// Load of each worker at the end of the graceful shutdown. A worker has aborted the connections that
    /// this load counts as open.
    pub loads: Vec<WorkerLoad>,
}

impl Workers {
    /// Starts the workers. Each worker calls `start` once, on its own thread, and passes its connections to
    /// the function that `start` returned. The number of a listener is its index in `listeners`.
    ///
    /// # Errors
    /// The operating system refuses to create a thread or a reactor.
    pub fn start<T>(
        config: WorkersConfig,
        listeners: Vec<Bound>,
        start: impl Fn(&Rc<Worker>) -> T + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        T: Fn(Accepted) + 'static,
    {
        let count = config.workers.max(1);
        let balance = Balance::new(count, config.connections_max);
        let (commands, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded_channel()).unzip();
        let start = Arc::new(start);
        let (started, starting) = std::sync::mpsc::channel();
        let (is_draining, places) = (Arc::default(), Registrations::default());
        let mut workers = Self { threads: Vec::new(), commands, balance, is_draining, places };
        let spawned = receivers.into_iter().enumerate().map(|(index, receiver)| {
            let (balance, commands) = (workers.balance.clone(), workers.commands.clone());
            let share = Share { index, is_batching: config.batches_sends, balance, commands };
            let (start, started) = (start.clone(), started.clone());
            let body = move || run_thread(share, receiver, &*start, &started);
            thread::Builder::new().name(format!("worker-{index}")).spawn(body)
        });
        let spawned: io::Result<Vec<_>> = spawned.collect();
        drop(started);
        let outcome = spawned.and_then(|threads| {
            workers.threads = threads;
            starting.iter().take(count).collect::<io::Result<()>>()
        });
        if let Err(error) = outcome {
            // Stops the workers that have already started.
            workers.drain(Duration::ZERO);
            return Err(error);
        }
        let live = workers.live();
        listeners.into_iter().enumerate().for_each(|(number, bound)| live.listen(number, bound));
        Ok(workers)
    }

    /// Returns a handle that adds and removes listeners while the workers run.
    pub fn live(&self) -> LiveWorkers {
        LiveWorkers::new(self.commands.clone(), self.balance.clone(), self.places.clone())
    }

    /// Starts the graceful shutdown of all workers: see [`DrainHandle::drain`].
    pub fn drain(&self, within: Duration) {
        self.drain_handle().drain(within);
    }

    /// Returns a handle with which another thread can start the graceful shutdown and read the loads.
    pub fn drain_handle(&self) -> DrainHandle {
        let (commands, balance) = (self.commands.clone(), self.balance.clone());
        DrainHandle { commands, balance, is_draining: self.is_draining.clone() }
    }

    /// Waits until all worker threads have ended.
    pub fn join(self) -> Drained {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
        self.places.clear();
        Drained { loads: self.balance.loads() }
    }

    /// Returns the load of each worker.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.balance.loads()
    }
}

/// Starts the graceful shutdown (drain) of all workers, and reports their loads.
#[derive(Clone, Debug)]
pub struct DrainHandle {
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    is_draining: Arc<AtomicBool>,
}

impl DrainHandle {
    /// Starts the graceful shutdown. The workers stop accepting connections. Each open connection closes when
    /// its accepted requests are answered. Connections that are still open after `within` are aborted.
    pub fn drain(&self, within: Duration) {
        drop(self.drain_and_hold(within));
    }

    /// Starts the graceful shutdown, as [`drain`](Self::drain) does. The workers run until the returned value
    /// is dropped, even if they have no connections, but at most for the time `within`. Hold the workers while
    /// tasks on their threads must end first.
    pub fn drain_and_hold(&self, within: Duration) -> WorkersHold {
        self.is_draining.store(true, Ordering::Relaxed);
        let hold = |commands: &UnboundedSender<Command>| {
            let (sender, hold) = unbounded_channel();
            // Sending fails only if the worker has already ended and needs no command.
            let _ = commands.send(Command::Drain { within, hold });
            sender
        };
        WorkersHold(self.commands.iter().map(hold).collect())
    }

    /// Returns `true` if the graceful shutdown has started.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Returns the load of each worker.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.balance.loads()
    }
}

/// Keeps the workers running during a graceful shutdown: see [`DrainHandle::drain_and_hold`].
#[derive(Debug)]
pub struct WorkersHold(#[expect(dead_code, reason = "dropping the senders ends the hold")] Vec<HoldSender>);

type HoldSender = UnboundedSender<Infallible>;

/// Body of a worker thread.
fn run_thread<T: Fn(Accepted) + 'static>(
    share: Share,
    commands: UnboundedReceiver<Command>,
    start: &impl Fn(&Rc<Worker>) -> T,
    started: &std::sync::mpsc::Sender<io::Result<()>>,
) {
    let runtime: io::Result<LocalRuntime> =
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    runtime.block_on(async {
        if share.is_batching {
            match sends::begin() {
                Ok(sending) => spawn(sending),
                Err(error) => tracing::info!(%error, "io_uring is not available, sending without batches"),
            }
        }
        let worker = Worker::new(share.index, share.balance.clone(), Clock::system());
        let serve = start(&worker);
        drive(&worker, Dispatcher::new(worker.clone(), share, serve), commands).await;
        sends::end();
    });
}

/// Executes commands and wakes connections with overdue deadlines, until the graceful shutdown is complete.
async fn drive<T: Fn(Accepted) + 'static>(
    worker: &Rc<Worker>,
    mut dispatcher: Dispatcher<T>,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut cut_off = None;
    let mut holds: Vec<UnboundedReceiver<Infallible>> = Vec::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Take { socket, client, listener, is_over_limit, kept }) => {
                    dispatcher.take(socket, client, listener, is_over_limit);
                    drop(kept);
                }
                Some(Command::Listen(listening)) => {
                    if cut_off.is_none() {
                        dispatcher.listen(listening);
                    }
                }
                Some(Command::SetDeferred { listener, is_deferred }) => {
                    dispatcher.set_deferred(listener, is_deferred);
                }
                Some(Command::StopListening { listener }) => {
                    dispatcher.stop(listener);
                    worker.remove_listener(listener);
                }
                Some(Command::Drain { within, hold }) => {
                    cut_off = Some(worker.clock().now() + within);
                    holds.push(hold);
                    dispatcher.stop_all();
                    worker.drain();
                }
                None => return,
            },
            _ = tick.tick() => {
                let now = worker.clock().now();
                worker.deadlines().wake_overdue(now);
                if cut_off.is_some_and(|cut_off| cut_off <= now) {
                    return worker.cut_off();
                }
            }
            () = poll_fn(|cx| {
                ready!(worker.poll_drained(cx, sends::poll_all_sent));
                holds.retain_mut(|hold| hold.poll_recv(cx).is_pending());
                if holds.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            }) => return,
        }
    }
}

/// Raises the soft limit of open descriptors to the hard limit. Call this function once at the start of a
/// program, and never from a library.
///
/// If the operating system refuses, the limit does not change, and a warning is logged.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "cannot raise the limit of open descriptors");
    }
}

/// Returns the number of connections that the descriptor limit allows. Some descriptors are reserved for
/// listeners, reactors and files.
fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    descriptors - (descriptors / RESERVED_SHARE).min(RESERVED_MAX)
}

/// One tenth of the descriptors is reserved, but no more than `RESERVED_MAX`.
const RESERVED_SHARE: usize = 10;
const RESERVED_MAX: usize = 512;

/// Interval at which overdue deadlines are checked.
const TICK: Duration = Duration::from_millis(100);
