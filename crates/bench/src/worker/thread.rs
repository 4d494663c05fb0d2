//! Runs a worker on a separate thread, with sockets and the system clock.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use rustix::time::{ClockId, clock_gettime};
use thruway_client::{ConnectError, UpstreamAddr, UpstreamStream, connect, secure};
use thruway_net::Clock;
use thruway_net::tls::{TlsConnector, TlsServerName};
use tokio::runtime::{Builder, LocalOptions};

use super::connection::{Connect, Handshake, OpenError, Opened};
use super::dispatch::Worker;
use super::lines::drive_lines;
use super::plan::{ConnectionOptions, Share};
use super::timer::Timer;
use super::user::run_user;
use crate::record::{Interval, Record};
use crate::requests::Requests;
use crate::stdio::Pipes;

/// TLS settings for connections to a server.
#[derive(Clone, Debug)]
pub struct LoadTls {
    /// TLS connector, which contains the trusted root certificates and the TLS sessions.
    pub connector: Arc<TlsConnector>,
    /// Expected name in the server's certificate.
    pub server_name: TlsServerName,
}

/// Resource use of a thread of the load generator in the measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerUse {
    /// CPU time.
    pub cpu: Duration,
    /// Time in which the thread was ready to run but had no CPU core.
    pub waited: Duration,
}

/// Settings of a worker thread.
#[derive(Clone)]
pub(crate) struct ThreadPlan {
    pub(crate) requests: Arc<dyn Requests>,
    pub(crate) addresses: Arc<[UpstreamAddr]>,
    pub(crate) tls: Option<LoadTls>,
    pub(crate) connection_options: ConnectionOptions,
    pub(crate) share: Share,
    /// Number of connections of this worker.
    pub(crate) connections: usize,
    pub(crate) intervals: Sender<Interval>,
    /// Number of connections that all workers have opened before the start.
    pub(crate) opened: Arc<AtomicUsize>,
    /// The input and the output of a child process. If these pipes are set, the load goes to the child
    /// process instead of the addresses.
    pub(crate) pipes: Option<Arc<(OwnedFd, OwnedFd)>>,
}

/// A thread that opens its connections, and then waits for the start of the load.
pub(crate) struct WorkerThread {
    handle: JoinHandle<io::Result<ThreadOutcome>>,
    ready: Receiver<Ready>,
    start: Sender<Duration>,
}

/// Result of the connection attempts before the start. If several attempts failed, `failure` prefers a
/// timeout to other errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) opened: usize,
    pub(crate) failure: Option<OpenError>,
}

/// The connections that were opened before the start.
struct InitialConnections {
    /// The open connection of each connection slot.
    streams: Vec<Option<UpstreamStream>>,
    ready: Ready,
}

/// Results of a thread.
pub(crate) struct ThreadOutcome {
    pub(crate) record: Record,
    /// Resource use since the start of the measured time, or zero if this time never started.
    pub(crate) used: WorkerUse,
}

/// Opens the connections of one connection slot. The number of the slot selects the address.
struct Connector {
    addresses: Arc<[UpstreamAddr]>,
    tls: Option<LoadTls>,
    slot: usize,
    connection_options: ConnectionOptions,
}

impl Connect for Connector {
    type Transport = UpstreamStream;

    async fn connect(&self) -> Result<Opened<UpstreamStream>, OpenError> {
        let within = self.connection_options.timeout;
        let stream = connect(&self.addresses[self.slot % self.addresses.len()], within).await?;
        let Some(tls) = &self.tls else { return Ok(UpstreamStream::from(stream).into()) };
        let transport = secure(stream, &tls.connector, &tls.server_name, within).await.map_err(refused)?;
        let UpstreamStream::Tls(secured) = &transport else { return Ok(transport.into()) };
        if self.connection_options.is_http2 && secured.alpn() != Some(b"h2") {
            return Err(OpenError::NotHttp2);
        }
        let handshake = if secured.is_resumed() { Handshake::Resumed } else { Handshake::Full };
        Ok(Opened { transport, handshake: Some(handshake) })
    }
}

fn refused(error: ConnectError) -> OpenError {
    match error {
        ConnectError::Tls(failure) if failure.is_no_protocol() => OpenError::NotHttp2,
        error => error.into(),
    }
}

impl WorkerThread {
    /// Starts the thread. The thread opens its connections at once.
    pub(crate) fn start(plan: ThreadPlan) -> io::Result<Self> {
        let (to_ready, ready) = channel();
        let (start, from_start) = channel();
        let name = format!("bench-{}", plan.share.worker);
        let handle = thread::Builder::new().name(name).spawn(move || run(plan, &to_ready, &from_start))?;
        Ok(Self { handle, ready, start })
    }

    /// Waits until the thread has tried to open its connections. Meanwhile, calls `watch` after each
    /// interval of the duration `look`.
    pub(crate) fn wait_until_ready(&self, look: Duration, watch: &mut dyn FnMut()) -> Option<Ready> {
        loop {
            match self.ready.recv_timeout(look) {
                Ok(ready) => return Some(ready),
                Err(RecvTimeoutError::Timeout) => watch(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Starts the load of the thread at `begin`.
    pub(crate) fn begin_at(&self, begin: Duration) {
        // An error means that the thread has ended. The result of `join` contains the reason.
        let _ = self.start.send(begin);
    }

    /// Returns `true` if the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits until the thread has ended.
    pub(crate) fn join(self) -> io::Result<ThreadOutcome> {
        // If the thread still waits for the start, dropping the channel ends the thread.
        drop(self.start);
        self.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn run(plan: ThreadPlan, ready: &Sender<Ready>, start: &Receiver<Duration>) -> io::Result<ThreadOutcome> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let (first, state) = connect_first(&plan).await;
        let _ = ready.send(state);
        let Ok(begin) = start.recv() else {
            return Ok(ThreadOutcome { record: Record::new(), used: WorkerUse::default() });
        };
        drive(plan, first, begin).await
    })
}

/// Opens connections before the start. Without keep-alive, opens no connections.
async fn connect_first(plan: &ThreadPlan) -> (Vec<Option<UpstreamStream>>, Ready) {
    let first = RefCell::new(InitialConnections::of(plan.connections));
    if plan.connection_options.is_persistent && plan.pipes.is_none() {
        let connecting = stream::iter(0..plan.connections)
            .for_each_concurrent(CONNECTING_MAX, |slot| connect_slot(plan, slot, &first));
        tokio::select! {
            () = connecting => {}
            () = plan.share.stop.wait() => {}
        }
    }
    let InitialConnections { streams, ready } = first.into_inner();
    (streams, ready)
}

/// Opens the connection of a slot. After the first timeout, the remaining slots connect during the load.
/// Otherwise, thousands of connections could time out before the start.
async fn connect_slot(plan: &ThreadPlan, slot: usize, first: &RefCell<InitialConnections>) {
    if first.borrow().ready.failure.is_some_and(OpenError::is_timeout) {
        return;
    }
    let outcome = connector(plan, slot).connect().await;
    plan.opened.fetch_add(outcome.is_ok().into(), Ordering::Relaxed);
    first.borrow_mut().note(slot, outcome);
}

impl InitialConnections {
    fn of(connections: usize) -> Self {
        let streams = std::iter::repeat_with(|| None).take(connections).collect();
        Self { streams, ready: Ready { opened: 0, failure: None } }
    }

    fn note(&mut self, slot: usize, outcome: Result<Opened<UpstreamStream>, OpenError>) {
        match outcome {
            Ok(opened) => {
                self.ready.opened += 1;
                self.streams[slot] = Some(opened.transport);
            }
            Err(error) if self.ready.failure.is_none() || error.is_timeout() => {
                self.ready.failure = Some(error);
            }
            Err(_) => {}
        }
    }
}

fn connector(plan: &ThreadPlan, slot: usize) -> Connector {
    Connector {
        addresses: plan.addresses.clone(),
        tls: plan.tls.clone(),
        slot,
        connection_options: plan.connection_options,
    }
}

async fn drive(
    plan: ThreadPlan,
    first: Vec<Option<UpstreamStream>>,
    begin: Duration,
) -> io::Result<ThreadOutcome> {
    let clock = Clock::system();
    let measured_from = begin + plan.share.warm_up;
    let mut timer = Timer::new()?;
    let requests = plan.requests.clone();
    let to = Some(plan.intervals.clone());
    let worker = Worker::new(clock.clone(), requests, plan.connection_options, plan.share.clone(), begin, to);
    tokio::time::sleep(begin.saturating_sub(clock.now_exact())).await;
    let slots = start_slots(&plan, &worker, first)?;
    // The first measurement happens at the start, because a short load may end before the first regular
    // measurement.
    let before = Cell::new(plan.share.warm_up.is_zero().then(thread_use));
    let wakes = std::future::poll_fn(|cx| {
        let outcome = timer.poll_worker(&worker, cx);
        if before.get().is_none() && clock.now() >= measured_from {
            before.set(Some(thread_use()));
        }
        outcome
    });
    let all = async {
        for slot in slots {
            // A panic in a connection slot makes the measurement useless, so the panic ends the thread too.
            slot.await?;
        }
        Ok::<(), tokio::task::JoinError>(())
    };
    tokio::select! {
        outcome = wakes => outcome?,
        outcome = all => outcome?,
    }
    worker.finish();
    let used = before.get().map_or_else(WorkerUse::default, |before| thread_use().since(before));
    Ok(ThreadOutcome { record: worker.record(), used })
}

fn start_slots(
    plan: &ThreadPlan,
    worker: &Rc<Worker>,
    first: Vec<Option<UpstreamStream>>,
) -> io::Result<Vec<tokio::task::JoinHandle<()>>> {
    if let (Some(pipes), Some(conversation)) = (&plan.pipes, plan.requests.conversation()) {
        let pipes = Pipes::watch(pipes.0.try_clone()?, pipes.1.try_clone()?)?;
        return Ok(vec![tokio::task::spawn_local(drive_lines(worker.clone(), pipes, conversation))]);
    }
    if let Some(scenario) = plan.requests.scenario() {
        let users = first.into_iter().enumerate().map(|(slot, first)| {
            let user = run_user(worker.clone(), slot, connector(plan, slot), first, scenario.clone());
            tokio::task::spawn_local(user)
        });
        return Ok(users.collect());
    }
    let slots = first.into_iter().enumerate().map(|(slot, first)| {
        tokio::task::spawn_local(Rc::clone(worker).run_slot(slot, connector(plan, slot), first))
    });
    Ok(slots.collect())
}

impl WorkerUse {
    /// Returns the difference since `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(before.cpu), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// Returns the resource use of this thread so far.
pub(crate) fn thread_use() -> WorkerUse {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let cpu =
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs());
    WorkerUse { cpu, waited: run_queue_wait().unwrap_or_default() }
}

/// Returns the time in which this thread was ready to run but had no CPU core, if the kernel reports this
/// time. The time in `schedstat` is the second number.
fn run_queue_wait() -> Option<Duration> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Maximum number of connections that one thread opens at the same time: less than the listen queue of most
/// servers.
const CONNECTING_MAX: usize = 64;
