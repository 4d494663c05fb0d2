//! Server with in-memory connections and a manual clock.
//!
//! ```
//! use thruway_testkit::test_server::TestServer;
//!
//! let server = TestServer::new(|| "hello");
//! let mut client = server.connect();
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
use thruway_telemetry::Tracer;

pub use client::TestClient;

use std::rc::Rc;

/// A server without a port. It has one worker, and its clients run in the same thread.
pub struct TestServer {
    time: ManualTime,
    worker: Rc<Worker>,
    driver: ConnectionDriver,
}

impl TestServer {
    /// Creates a server with `handler` and the default config.
    pub fn new<M>(handler: impl IntoHandler<M>) -> Self {
        Self::with(handler, Config::default(), None)
    }

    /// Creates a server with `handler` and `config`.
    pub fn with_config<M>(handler: impl IntoHandler<M>, config: Config) -> Self {
        Self::with(handler, config, None)
    }

    /// Creates a server with `handler` and `config`. If `record` is set, it gets a record of each request.
    pub fn with<M>(handler: impl IntoHandler<M>, config: Config, record: Option<TakeRecord>) -> Self {
        let time = ManualTime::default();
        let worker = Worker::for_test(Clock::manual(time.clone()));
        let driver = ConnectionDriver::new(handler.into_handler(), Arc::new(config), worker.clone(), record);
        Self { time, worker, driver }
    }

    /// Creates a server with `handler` and the default config, which passes the spans of its requests to
    /// `tracer`.
    pub fn traced<M>(handler: impl IntoHandler<M>, tracer: &Arc<Tracer>) -> Self {
        Self::traced_with(handler, Config::default(), tracer)
    }

    /// Creates a server with `handler` and `config`, which passes the spans of its requests to `tracer`.
    pub fn traced_with<M>(handler: impl IntoHandler<M>, config: Config, tracer: &Arc<Tracer>) -> Self {
        let time = ManualTime::default();
        let worker = Worker::for_test(Clock::manual(time.clone()));
        let driver =
            ConnectionDriver::traced(handler.into_handler(), Arc::new(config), worker.clone(), tracer);
        Self { time, worker, driver }
    }

    /// Connects a client that uses HTTP/1.1.
    pub fn connect(&self) -> TestClient {
        let (near, far) = crate::pipe();
        TestClient::new(near, Box::pin(self.driver.drive(far, client_info(), self.worker.guard_for_test())))
    }

    /// Connects a client. The server detects HTTP/1.1, or HTTP/2 with prior knowledge, from the first bytes.
    pub fn connect_detecting_protocol(&self) -> TestClient {
        let (near, far) = crate::pipe();
        let (driver, guard) = (self.driver.clone(), self.worker.guard_for_test());
        let info = client_info();
        let early = PooledBuffer::default();
        TestClient::new(near, Box::pin(async move { driver.drive_detected(far, early, info, guard).await }))
    }

    /// Connects a client that uses `protocol`, as if TLS had negotiated it.
    pub fn connect_with_protocol(&self, protocol: HttpProtocol) -> TestClient {
        let (near, far) = crate::pipe();
        let (driver, guard) = (self.driver.clone(), self.worker.guard_for_test());
        let info = client_info();
        let early = PooledBuffer::default();
        TestClient::new(
            near,
            Box::pin(async move { driver.drive_protocol(protocol, far, early, info, guard).await }),
        )
    }

    /// Like [`connect_detecting_protocol`](Self::connect_detecting_protocol), but exceeds the connection
    /// limit.
    pub fn connect_detecting_protocol_over_limit(&self) -> TestClient {
        self.worker.fill_for_test();
        self.connect_detecting_protocol()
    }

    /// Like [`connect`](Self::connect), but exceeds the connection limit.
    pub fn connect_over_limit(&self) -> TestClient {
        self.worker.fill_for_test();
        self.connect()
    }

    /// Advances the clock in steps of 100 ms and wakes connections with expired deadlines, like the timer of
    /// a worker. Does not poll the connections: [`TestClient::run`] and most of its other methods do.
    pub fn advance_time(&self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(100));
            self.time.advance(step);
            self.worker.deadlines().wake_overdue(self.worker.clock().now());
            left -= step;
        }
    }

    /// Sets the clock forward without waking connections, so a test can start at a given time of day.
    pub fn jump_time(&self, duration: Duration) {
        self.time.advance(duration);
    }

    /// Starts to drain the server.
    pub fn drain(&self) {
        self.worker.drain();
    }

    /// Ends the drain at its timeout. The test then calls [`TestClient::drop_connection`] for each client.
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
        handler_settings: None,
    }
}
