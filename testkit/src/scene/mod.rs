//! A server and its clients in memory, with a manual clock.
//!
//! ```
//! use thruway_testkit::scene::Scene;
//!
//! let scene = Scene::new(|| "hello");
//! let mut client = scene.connect();
//! client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
//! assert!(client.received().ends_with("\r\n\r\nhello"));
//! ```

mod client;

use std::sync::Arc;
use std::time::Duration;

use thruway_net::{Clock, ManualTime, Peer, PooledBuffer, Worker};
use thruway_server::{
    ClientAddr, Config, ConnectionDriver, ConnectionInfo, HttpProtocol, IntoHandler, TakeRecord,
};

pub use client::Client;

use std::rc::Rc;

/// A server without a port: one worker, with its clients in the same thread.
pub struct Scene {
    time: ManualTime,
    worker: Rc<Worker>,
    driver: ConnectionDriver,
}

impl Scene {
    /// A server that answers with `handler`.
    pub fn new<M>(handler: impl IntoHandler<M>) -> Self {
        Self::with(handler, Config::default(), None)
    }

    /// A server that answers with `handler`, within other limits and timeouts.
    pub fn with_config<M>(handler: impl IntoHandler<M>, config: Config) -> Self {
        Self::with(handler, config, None)
    }

    /// A server that gives a record of each request to `record`.
    pub fn with<M>(handler: impl IntoHandler<M>, config: Config, record: Option<TakeRecord>) -> Self {
        let time = ManualTime::default();
        let worker = Worker::for_test(Clock::manual(time.clone()));
        let driver = ConnectionDriver::new(handler.into_handler(), Arc::new(config), worker.clone(), record);
        Self { time, worker, driver }
    }

    /// A client that has just connected.
    pub fn connect(&self) -> Client {
        let (near, far) = crate::pipe();
        Client::new(near, Box::pin(self.driver.drive(far, client_info(), self.worker.guard_for_test())))
    }

    /// Connects a client that uses HTTP/2 with prior knowledge.
    pub fn connect_recognised(&self) -> Client {
        let (near, far) = crate::pipe();
        let (driver, guard) = (self.driver.clone(), self.worker.guard_for_test());
        let info = client_info();
        let early = PooledBuffer::default();
        Client::new(near, Box::pin(async move { driver.drive_detected(far, early, info, guard).await }))
    }

    /// A client that has just connected, and has negotiated what is spoken.
    pub fn connect_as(&self, spoken: HttpProtocol) -> Client {
        let (near, far) = crate::pipe();
        let (driver, guard) = (self.driver.clone(), self.worker.guard_for_test());
        let info = client_info();
        let early = PooledBuffer::default();
        Client::new(
            near,
            Box::pin(async move { driver.drive_protocol(spoken, far, early, info, guard).await }),
        )
    }

    /// A client of HTTP/2, or of HTTP/1.1, that comes when there were as many as allowed already.
    pub fn connect_recognised_over_limit(&self) -> Client {
        self.worker.fill_for_test();
        self.connect_recognised()
    }

    /// A client that has just connected, when there were as many as allowed already.
    pub fn connect_over_limit(&self) -> Client {
        self.worker.fill_for_test();
        self.connect()
    }

    /// Lets time pass, a tenth of a second at a time, as the worker's timer does. The clients must be looked
    /// at afterwards: see [`Client::run`].
    pub fn pass(&self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(100));
            self.time.advance(step);
            self.worker.deadlines().wake_overdue(self.worker.clock().now());
            left -= step;
        }
    }

    /// Lets time pass at once, without waking any connection: for the time of day at which a test begins.
    pub fn skip(&self, duration: Duration) {
        self.time.advance(duration);
    }

    /// Begins the drain of the server.
    pub fn drain(&self) {
        self.worker.drain();
    }

    /// Ends its time: each of the clients is to be [cut off](Client::cut_off) then.
    pub fn end_drain(&self) {
        self.worker.cut_off_for_test();
    }
}

fn client_info() -> ConnectionInfo {
    ConnectionInfo {
        client: ClientAddr::Tcp(([192, 0, 2, 1], 4711).into()),
        peer: Peer::Tcp { client: ([192, 0, 2, 1], 4711).into(), listener_port: 80 },
        listener: 0,
        destination: None,
        tls: None,
        compression: <_>::default(),
    }
}
