//! Runs a load: starts the threads together, reports progress, and adds up the results.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use crate::listen_queue::ListenQueue;
use crate::live::ProgressDetails;
use crate::over_time::OverTime;
use crate::process::{self, Meter, Usage};
use crate::progress::{Progress, Stage};
use crate::record::{Interval, Record};
use crate::requests::Requests;
use crate::schedule::Pace;
use crate::stages::Stages;
use crate::stdio::ChildServer;
use crate::stop::{Limit, StopFlag, share};
use crate::times::Times;
use crate::worker::{ConnectionOptions, LoadTls, OpenError, Share, ThreadPlan, WorkerThread, WorkerUse};

/// A load that is ready to run.
#[derive(Clone)]
pub struct Load {
    /// The requests.
    pub requests: Arc<dyn Requests>,
    /// Addresses of the server (at least one). The connections use these addresses in turn.
    pub addresses: Vec<UpstreamAddr>,
    /// TLS settings, or `None` without TLS. The connector in these settings decides whether TLS sessions
    /// are resumed.
    pub tls: Option<LoadTls>,
    /// Number of connections of all workers together, at least one for each worker.
    pub connections: usize,
    /// Number of threads.
    pub workers: usize,
    /// The schedule of the requests.
    pub pace: Pace,
    /// The duration of the load, or the number of its requests.
    pub limit: Limit,
    /// The duration of the warm-up.
    pub warm_up: Duration,
    /// Options for the use of connections.
    pub connection_options: ConnectionOptions,
    /// Lets the caller stop the load.
    pub stop: StopFlag,
    /// Process id of the server, to measure its resource use.
    pub server: Option<u32>,
}

/// The results of a load.
#[derive(Debug)]
pub struct Outcome {
    /// The results of the requests.
    pub record: Record,
    /// The results over time.
    pub over_time: OverTime,
    /// The measured duration. The duration includes the time until the last requests complete or fail after
    /// the planned end.
    pub elapsed: Duration,
    /// Time from the last expected response to the end of the load.
    pub silence: Duration,
    /// Duration by which counts are divided to compute rates. In an open loop, this is the time in which
    /// requests were scheduled. Responses may arrive later.
    pub window: Duration,
    /// Resource use of each thread of the load generator.
    pub workers: Vec<WorkerUse>,
    /// Resource use of the server.
    pub server: Option<ServerUse>,
    /// Numbers of connections that listen queues dropped since the first connection, if the server is on
    /// this machine.
    pub listen_queue: Option<ListenQueue>,
    /// `true` if the caller stopped the load.
    pub is_stopped: bool,
    /// The number of connections that could not be opened before the start, and the reason for one of them.
    pub missing: Option<(usize, OpenError)>,
    /// The times from a publication to the notification of each subscriber. `None` if the load has no
    /// publications.
    pub deliveries: Option<Times>,
}

/// Resource use of a server in the measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerUse {
    /// CPU time.
    pub cpu: Duration,
    /// Resident memory at the start of the measured time, in bytes.
    pub resident_before_bytes: u64,
    /// Resident memory at the end of the measured time, in bytes.
    pub resident_after_bytes: u64,
    /// Maximum observed resident memory, in bytes.
    pub resident_max_bytes: u64,
    /// `true` if CPU time is missing, because a process ended and its parent did not call `wait`.
    pub is_incomplete: bool,
}

/// Reason why a load could not begin.
#[derive(Debug)]
pub enum RunError {
    /// No connection to this address could be opened.
    Connect(UpstreamAddr, OpenError),
    /// The system could not create a thread, a timer or an event loop.
    System(io::Error),
    /// The process of the server does not exist.
    ServerMissing(u32),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(address, error) => write!(f, "cannot connect to `{address}`: {error}"),
            Self::System(error) => write!(f, "a system call failed: {error}"),
            Self::ServerMissing(id) => write!(f, "there is no process {id}"),
        }
    }
}

impl std::error::Error for RunError {}

impl RunError {
    /// Returns the next step for the user of `thruway bench`, if there is one.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(_, error) => error.hint(),
            Self::ServerMissing(_) => Some("`--pid` is the process id of the server"),
            Self::System(_) => None,
        }
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Load {
    /// Runs the load. Calls `watch` with the progress a few times a second.
    ///
    /// # Errors
    /// Returns an error if the load could not begin. Later failures are part of the outcome.
    ///
    /// # Panics
    /// Panics if there is no address or no worker.
    pub fn run(&self, watch: &mut dyn FnMut(&Progress)) -> Result<Outcome, RunError> {
        assert!(!self.addresses.is_empty() && self.workers > 0, "a load needs an address and a worker");
        if let Some(id) = self.server {
            process::usage(id).ok_or(RunError::ServerMissing(id))?;
        }
        let (to, intervals) = channel();
        let opened = Arc::new(AtomicUsize::new(0));
        let plan = |worker| self.thread_plan(worker, to.clone(), opened.clone());
        let plans: Vec<_> = (0..self.workers).map(plan).collect();
        drop(to);
        self.run_threads(plans, &intervals, watch)
    }

    /// Loads a server that is a child process. One thread generates the load. MCP messages are lines on the
    /// standard input and output of the child. Ignores the settings `addresses`, `connections` and `workers`.
    /// `connection_options.pipeline` is the number of concurrent requests. In a closed loop, each response
    /// starts the next request.
    ///
    /// # Errors
    /// Returns an error if the load could not begin. Later failures are part of the outcome.
    pub fn run_child(
        &self,
        child: &ChildServer,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Outcome, RunError> {
        let load = Self { connections: 1, workers: 1, server: Some(child.id()), ..self.clone() };
        let (to, intervals) = channel();
        let plan = load.thread_plan(0, to, Arc::new(AtomicUsize::new(0)));
        let plan = ThreadPlan { pipes: Some(Arc::new(child.descriptors()?)), ..plan };
        load.run_threads(vec![plan], &intervals, watch)
    }

    fn run_threads(
        &self,
        plans: Vec<ThreadPlan>,
        intervals: &Receiver<Interval>,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Outcome, RunError> {
        let listen_queue = ListenQueue::look(self.server, &self.addresses);
        let opened = plans.first().map(|plan| plan.opened.clone()).unwrap_or_default();
        let threads = plans.into_iter().map(WorkerThread::start).collect::<io::Result<Vec<_>>>()?;
        let missing = self.wait_for_connections(&threads, &opened, watch)?;
        let begin = Clock::system().now_exact() + HEAD_START;
        for thread in &threads {
            thread.begin_at(begin);
        }
        let mut watcher = Watcher::new(self, begin, listen_queue);
        watcher.watch(&threads, intervals, self.pace.stages().map(|stages| &**stages), watch);
        self.conclude(threads, watcher, missing)
    }

    fn thread_plan(
        &self,
        worker: usize,
        intervals: Sender<Interval>,
        opened: Arc<AtomicUsize>,
    ) -> ThreadPlan {
        let connections = share(self.connections as u64, worker, self.workers);
        // Each worker begins with a different address.
        let mut addresses = self.addresses.clone();
        addresses.rotate_left(worker % self.addresses.len().max(1));
        ThreadPlan {
            requests: self.requests.clone(),
            addresses: addresses.into(),
            tls: self.tls.clone(),
            connection_options: self.connection_options,
            share: Share {
                pace: self.pace.clone(),
                limit: self.limit,
                warm_up: self.warm_up,
                worker,
                workers: self.workers,
                interval: self.interval(),
                stop: self.stop.clone(),
            },
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            intervals,
            opened,
            pipes: None,
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        match self.limit {
            Limit::Duration(duration) => (duration / 60).clamp(INTERVAL_MIN, INTERVAL_MAX),
            Limit::Requests(_) => INTERVAL_OF_REQUESTS,
        }
    }

    /// Waits until all threads have tried to open their connections. If some connections failed, returns
    /// their number and a reason. If all connections failed, returns an error.
    fn wait_for_connections(
        &self,
        threads: &[WorkerThread],
        opened: &AtomicUsize,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Option<(usize, OpenError)>, RunError> {
        let mut watch = || watch(&Progress::connecting(opened.load(Ordering::Relaxed), self.connections));
        let ready: Vec<_> =
            threads.iter().filter_map(|thread| thread.wait_until_ready(LOOK, &mut watch)).collect();
        let opened: usize = ready.iter().map(|ready| ready.opened).sum();
        let failure = ready.iter().find_map(|ready| ready.failure);
        match failure {
            Some(error) if opened == 0 => Err(RunError::Connect(self.addresses[0].clone(), error)),
            Some(error) => Ok(Some((self.connections - opened, error))),
            None => Ok(None),
        }
    }

    fn conclude(
        &self,
        threads: Vec<WorkerThread>,
        watcher: Watcher,
        missing: Option<(usize, OpenError)>,
    ) -> Result<Outcome, RunError> {
        let mut record = Record::new();
        let mut workers = Vec::new();
        for thread in threads {
            let outcome = thread.join()?;
            record.add(&outcome.record);
            workers.push(outcome.used);
        }
        let is_stopped = self.stop.is_set();
        let ended = Clock::system().now_exact();
        let measured = record.last_end.saturating_sub(watcher.measured_from);
        let elapsed = match self.limit {
            Limit::Duration(duration) if !is_stopped && !record.is_given_up => duration.max(measured),
            Limit::Requests(_) if !measured.is_zero() && !is_stopped && !record.is_given_up => measured,
            _ => ended.saturating_sub(watcher.measured_from),
        };
        let (server, listen_queue) = (watcher.server_use(), watcher.listen_queue(self));
        let silence =
            (watcher.measured_from + elapsed).saturating_sub(record.last_answer.max(watcher.measured_from));
        let cut_short = record.ended_early_at.map(|ended| ended.saturating_sub(watcher.measured_from));
        let window = self.pace.window(self.limit).map_or(elapsed, |window| cut_short.unwrap_or(window));
        Ok(Outcome {
            record,
            over_time: watcher.over_time,
            elapsed,
            silence,
            window,
            workers,
            server,
            listen_queue,
            is_stopped,
            missing,
            deliveries: None,
        })
    }
}

/// Collects the intervals of the workers and measures the server during a load.
struct Watcher {
    clock: Clock,
    measured_from: Duration,
    over_time: OverTime,
    server: Option<Meter>,
    before: Option<Usage>,
    after: Option<Usage>,
    resident_max_bytes: u64,
    listen_queue_before: Option<ListenQueue>,
    answered: u64,
    failed: u64,
}

impl Watcher {
    fn new(load: &Load, begin: Duration, listen_queue_before: Option<ListenQueue>) -> Self {
        let mut server = load.server.map(Meter::new);
        Self {
            clock: Clock::system(),
            measured_from: begin + load.warm_up,
            over_time: OverTime::new(load.interval()),
            // The first measurement happens just before the start, because a short load may end before the
            // first regular measurement.
            before: server.as_mut().filter(|_| load.warm_up.is_zero()).and_then(Meter::look),
            server,
            after: None,
            resident_max_bytes: 0,
            listen_queue_before,
            answered: 0,
            failed: 0,
        }
    }

    /// Watches the load until all threads have ended.
    fn watch(
        &mut self,
        threads: &[WorkerThread],
        intervals: &Receiver<Interval>,
        stages: Option<&Stages>,
        watch: &mut dyn FnMut(&Progress),
    ) {
        let mut next_look = self.measured_from.min(self.clock.now_exact() + LOOK);
        loop {
            let now = self.clock.now_exact();
            match intervals.recv_timeout(next_look.saturating_sub(now)) {
                Ok(interval) => {
                    self.answered += interval.answered;
                    self.failed += interval.failed;
                    self.over_time.add(&interval);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look_at_server();
            watch(&self.progress(stages));
            let now = self.clock.now_exact();
            next_look =
                if now < self.measured_from { self.measured_from.min(now + LOOK) } else { now + LOOK };
            if threads.iter().all(WorkerThread::is_finished) {
                break;
            }
        }
        self.look_at_server();
    }

    fn look_at_server(&mut self) {
        if self.clock.now_exact() < self.measured_from {
            return;
        }
        let Some(usage) = self.server.as_mut().and_then(Meter::look) else { return };
        self.before.get_or_insert(usage);
        self.after = Some(usage);
        self.resident_max_bytes = self.resident_max_bytes.max(usage.resident_bytes);
    }

    fn server_use(&self) -> Option<ServerUse> {
        let (before, after) = (self.before?, self.after?);
        Some(ServerUse {
            cpu: after.cpu.saturating_sub(before.cpu),
            resident_before_bytes: before.resident_bytes,
            resident_after_bytes: after.resident_bytes,
            resident_max_bytes: self.resident_max_bytes,
            is_incomplete: self.server.as_ref().is_some_and(Meter::is_incomplete),
        })
    }

    fn listen_queue(&self, load: &Load) -> Option<ListenQueue> {
        let after = ListenQueue::look(load.server, &load.addresses)?;
        Some(after.since(self.listen_queue_before?))
    }

    fn progress(&self, stages: Option<&Stages>) -> Progress {
        let now = self.clock.now_exact();
        let last = self.over_time.last();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = last.map_or(0.0, |(known, part)| part.answered as f64 / known.as_secs_f64());
        let measured = now.checked_sub(self.measured_from);
        Progress {
            stage: Stage::of(measured),
            answered: self.answered,
            failed: self.failed,
            rate,
            p99: last.map_or(Duration::ZERO, |(_, part)| part.response.percentile(99.0)),
            details: measured
                .map(|measured| ProgressDetails::of(&self.over_time, stages, measured))
                .unwrap_or_default(),
        }
    }
}

/// Time between the start command and the start of the load, so that all threads can get ready.
const HEAD_START: Duration = Duration::from_millis(20);

const LOOK: Duration = Duration::from_millis(200);
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(1);
const INTERVAL_OF_REQUESTS: Duration = Duration::from_millis(200);
