//! A server in the task of a test.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use thruway_net::{ClientAddr, Clock, Peer, Transport, Worker, spawn};
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};

use super::watched::{Failure, Watched};
use crate::config::Config;
use crate::connection::ConnectionDriver;
use crate::connection_info::ConnectionInfo;
use crate::handler::Handler;

/// A worker with a handler. Its connections and the tasks of its handlers run in a [`LocalSet`].
pub(super) struct InProcessServer {
    handler: Arc<dyn Handler>,
    config: Arc<Config>,
    worker: Rc<Worker>,
    tasks: RefCell<LocalSet>,
    waiting: Arc<WaitingTasks>,
}

impl InProcessServer {
    pub(super) fn new(handler: Arc<dyn Handler>, config: Config) -> Self {
        let worker = Worker::for_test(Clock::tokio());
        let tasks = LocalSet::new();
        tasks.spawn_local(wake_overdue(worker.clone()));
        let (config, waiting) = (Arc::new(config), Arc::default());
        Self { handler, config, worker, tasks: RefCell::new(tasks), waiting }
    }

    /// Starts to serve the client `client` over `transport`. Returns the place for the failure of its
    /// handler.
    pub(super) fn serve(&self, transport: impl Transport, client: SocketAddr) -> Failure {
        let failure = Failure::default();
        let handler = Arc::new(Watched::new(self.handler.clone(), failure.clone()));
        // Each connection has its own driver, so that a failure belongs to its connection.
        let driver = ConnectionDriver::new(handler, self.config.clone(), self.worker.clone(), None);
        let info = ConnectionInfo {
            client: ClientAddr::Tcp(client),
            peer: Peer::Tcp { client, listener_port: 80 },
            listener: 0,
            destination: None,
            tls: None,
            #[cfg(feature = "compression")]
            compression: <_>::default(),
            handler_settings: None,
        };
        let connection = driver.drive(transport, info, self.worker.guard_for_test());
        match self.tasks.try_borrow() {
            Ok(tasks) => drop(tasks.spawn_local(connection)),
            // The caller is one of these tasks.
            Err(_) => spawn(connection),
        }
        failure
    }

    /// Runs the tasks of the server until they wait. If one of them can continue, the server wakes the task
    /// of `cx`, which must then call this function again.
    pub(super) fn run(&self, cx: &Context<'_>) {
        self.waiting.add(cx.waker());
        // The tasks are already running if a handler of this server uses the client.
        if let Ok(mut tasks) = self.tasks.try_borrow_mut() {
            let waker = Waker::from(self.waiting.clone());
            let _: Poll<()> = Pin::new(&mut *tasks).poll(&mut Context::from_waker(&waker));
        }
    }
}

/// Wakes the connections with overdue deadlines, like the main task of a worker.
async fn wake_overdue(worker: Rc<Worker>) {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        worker.deadlines().wake_overdue(worker.clock().now());
    }
}

/// The tasks that run the server when one of its tasks can continue. A [`LocalSet`] wakes only the last task
/// that has polled it, and this task may have ended.
#[derive(Default)]
struct WaitingTasks(Mutex<Vec<Waker>>);

impl WaitingTasks {
    fn add(&self, waker: &Waker) {
        let mut wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

impl Wake for WaitingTasks {
    fn wake(self: Arc<Self>) {
        let wakers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Interval at which overdue deadlines are checked, as in a server.
const TICK: Duration = Duration::from_millis(100);
