//! The threads of the engine.

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
use crate::listening::{Command, LiveWorkers, Places};
use crate::sends;
use crate::worker::{Worker, spawn};

/// How many threads, and for how many connections.
#[derive(Clone, Copy, Debug)]
pub struct WorkersConfig {
    /// Worker threads. Default one for each core this process may use.
    pub workers: usize,
    /// Connections open at one time in all workers; those beyond are marked when they are accepted. Default
    /// as many as the process may have descriptors, less some for files.
    pub connections_max: usize,
    /// Whether what connections of a worker send in one go is handed to the kernel in one system call
    /// (`io_uring`). Gains much where workers share their cores with clients or upstreams. Default yes; where
    /// the kernel has none, each connection sends for itself.
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

/// The running threads. Dropping this leaves them alone.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    is_draining: Arc<AtomicBool>,
    places: Places,
}

/// How a drain ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drained {
    /// What each worker had to do with. Connections that are still open were cut off by the deadline.
    pub loads: Vec<WorkerLoad>,
}

impl Workers {
    /// Starts the workers. Each calls `start` once, on its own thread, and then gives every connection it
    /// gets to the function that came back. The numbers of `listeners` are their places.
    ///
    /// # Errors
    /// The system refuses threads or reactors.
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
        let (is_draining, places) = (Arc::default(), Places::default());
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
            // Those that have started must not go on to accept.
            workers.drain(Duration::ZERO);
            return Err(error);
        }
        let live = workers.live();
        listeners.into_iter().enumerate().for_each(|(number, bound)| live.listen(number, bound));
        Ok(workers)
    }

    /// What changes them while they run.
    pub fn live(&self) -> LiveWorkers {
        LiveWorkers::new(self.commands.clone(), self.balance.clone(), self.places.clone())
    }

    /// Begins to end: see [`DrainHandle::drain`].
    pub fn drain(&self, within: Duration) {
        self.drain_handle().drain(within);
    }

    /// What begins the end from another thread, and tells how things are.
    pub fn drain_handle(&self) -> DrainHandle {
        let (commands, balance) = (self.commands.clone(), self.balance.clone());
        DrainHandle { commands, balance, is_draining: self.is_draining.clone() }
    }

    /// Waits until all workers have ended.
    pub fn join(self) -> Drained {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker has panicked");
            }
        }
        self.places.clear();
        Drained { loads: self.balance.loads() }
    }

    /// What each worker has to do with.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.balance.loads()
    }
}

/// Begins the end of all workers, and tells how they are.
#[derive(Clone, Debug)]
pub struct DrainHandle {
    commands: Vec<UnboundedSender<Command>>,
    balance: Balance,
    is_draining: Arc<AtomicBool>,
}

impl DrainHandle {
    /// No connection is accepted any more, each ends when what was accepted is answered, and what is left
    /// after `within` is cut off.
    pub fn drain(&self, within: Duration) {
        self.is_draining.store(true, Ordering::Relaxed);
        for commands in &self.commands {
            // A worker that has ended already needs no command.
            let _ = commands.send(Command::Drain { within });
        }
    }

    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// What each worker has to do with.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.balance.loads()
    }
}

/// The whole life of a worker's thread.
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
                Err(error) => tracing::info!(%error, "sends are not put together"),
            }
        }
        let worker = Worker::new(share.index, share.balance.clone(), Clock::system());
        let serve = start(&worker);
        drive(&worker, Dispatcher::new(worker.clone(), share, serve), commands).await;
        sends::end();
    });
}

/// Accepts, takes what others accepted, and keeps the time, until the drain has come to its end.
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

/// Raises the soft limit of open descriptors to the hard one. A program calls this once, early; a library
/// does not.
///
/// If the system refuses, the limit stays as it is.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open descriptors cannot be raised");
    }
}

/// How many connections descriptors allow: all but some for listeners, reactors, files and what the program
/// opens.
fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
    descriptors - (descriptors / RESERVED_SHARE).min(RESERVED_MAX)
}

/// A tenth is reserved, and at most this many.
const RESERVED_SHARE: usize = 10;
const RESERVED_MAX: usize = 512;

/// How exact deadlines are.
const TICK: Duration = Duration::from_millis(100);
