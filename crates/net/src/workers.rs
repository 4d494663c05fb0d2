//! The worker threads of the engine.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The number of threads, and the maximum number of connections.
#[derive(Clone, Copy, Debug)]
pub struct WorkersConfig {
    /// Number of worker threads. The default is one for each core that this process may use.
    pub workers: usize,
    /// Maximum number of open connections in all workers. Connections beyond the limit are marked when they
    /// are accepted. The default is the descriptor limit of the process, minus a reserve for files.
    pub connections_max: usize,
    /// `true` if a worker hands all data that its connections send in one poll to the kernel in one system
    /// call (`io_uring`). This helps most if workers share their cores with clients or upstream servers. The
    /// default is `true`. Without `io_uring` in the kernel, each connection sends its data separately.
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

/// The running threads. Dropping this value does not stop them.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    is_draining: Arc<AtomicBool>,
    places: Registrations,
}

/// The result of a drain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drained {
    /// The load of each worker. The deadline closed all connections that are still counted as open.
    pub loads: Vec<WorkerLoad>,
}

impl Workers {
    /// Starts the workers. Each worker calls `start` once, on its own thread. It passes every connection that
    /// it gets to the function that `start` returned. The number of a listener is its index in `listeners`.
    ///
    /// # Errors
    /// The system refuses to create a thread or a reactor.
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
            // The workers that have started must stop accepting.
            workers.drain(Duration::ZERO);
            return Err(error);
        }
        let live = workers.live();
        listeners.into_iter().enumerate().for_each(|(number, bound)| live.listen(number, bound));
        Ok(workers)
    }

    /// Returns the handle that changes the workers while they run.
    pub fn live(&self) -> LiveWorkers {
        LiveWorkers::new(self.commands.clone(), self.balance.clone(), self.places.clone())
    }

    /// Starts the drain: see [`DrainHandle::drain`].
    pub fn drain(&self, within: Duration) {
        self.drain_handle().drain(within);
    }

    /// Returns the handle that starts the drain from another thread and reports the loads.
    pub fn drain_handle(&self) -> DrainHandle {
        let (commands, balance) = (self.commands.clone(), self.balance.clone());
        DrainHandle { commands, balance, is_draining: self.is_draining.clone() }
    }

    /// Waits until all workers have ended.
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

/// Starts the drain of all workers, and reports their loads.
#[derive(Clone, Debug)]
pub struct DrainHandle {
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    is_draining: Arc<AtomicBool>,
}

impl DrainHandle {
    /// Stops accepting connections. Each connection closes when its accepted requests are answered.
    /// Connections that are still open after `within` are closed.
    pub fn drain(&self, within: Duration) {
        self.is_draining.store(true, Ordering::Relaxed);
        for commands in &self.commands {
            // A worker that has ended needs no command.
            let _ = commands.send(Command::Drain { within });
        }
    }

    /// Returns `true` if the drain has started.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Returns the load of each worker.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.balance.loads()
    }
}

/// Runs a worker's thread from start to end.
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

/// Runs the commands for this worker and its deadlines until the drain has ended.
async fn drive<T: Fn(Accepted) + 'static>(
    worker: &Rc<Worker>,
    mut dispatcher: Dispatcher<T>,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut cut_off = None;
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
                Some(Command::StopListening { listener }) => {
                    dispatcher.stop(listener);
                    worker.remove_listener(listener);
                }
                Some(Command::Drain { within }) => {
                    cut_off = Some(worker.clock().now() + within);
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
            () = poll_fn(|cx| worker.poll_drained(cx, sends::poll_all_sent)) => return,
        }
    }
}

/// Raises the soft limit of open descriptors to the hard limit. A program calls this once, early. A library
/// should not call it.
///
/// If the system refuses, the limit does not change.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "cannot raise the limit of open descriptors");
    }
}

/// Returns the number of connections that the descriptor limit allows. A reserve stays for listeners,
/// reactors, files and descriptors that the program opens.
fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    descriptors - (descriptors / RESERVED_SHARE).min(RESERVED_MAX)
}

/// One tenth of the descriptors is reserved, but at most `RESERVED_MAX`.
const RESERVED_SHARE: usize = 10;
const RESERVED_MAX: usize = 512;

/// Precision of deadlines.
const TICK: Duration = Duration::from_millis(100);
