//! A server on a free port, and helpers for its clients.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use thruway_server::{Config, IntoHandler, ListenAddr, Listener, RunningServer, Server};

/// A server with two workers. It runs until the process ends, unless a test drains it.
pub(crate) struct Site {
    pub(crate) server: RunningServer,
    pub(crate) address: SocketAddr,
}

impl Site {
    pub(crate) fn start<M>(app: impl IntoHandler<M>, config: Config) -> Self {
        let address: ListenAddr = "127.0.0.1:0".parse().unwrap();
        Self::start_at(address, app, config)
    }

    pub(crate) fn start_at<M>(
        listener: impl Into<Listener>,
        app: impl IntoHandler<M>,
        config: Config,
    ) -> Self {
        Self::of(Server::new(app).config(config).workers(2).listen_on(listener))
    }

    /// Starts the given server.
    pub(crate) fn of(server: Server) -> Self {
        let server = server.start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else {
            panic!("the server should have one TCP address")
        };
        Self { server, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Returns the number of open connections of each worker.
    pub(crate) fn connections(&self) -> Vec<usize> {
        self.server.loads().iter().map(|load| load.connections).collect()
    }

    /// Waits until this number of connections is open.
    pub(crate) fn until_open(&self, connections: usize) {
        until(|| self.connections().iter().sum::<usize>() == connections);
    }
}

/// Polls `is_so` until it returns `true`. For conditions without a notification.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    for _ in 0..TIMEOUT.as_millis() / PAUSE.as_millis() {
        if is_so() {
            return;
        }
        thread::sleep(PAUSE);
    }
    panic!("the condition was not met within {TIMEOUT:?}");
}

/// Reads until the server closes the connection normally.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let outcome = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    assert!(outcome.is_ok(), "{outcome:?} after {text:?}");
    text
}

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// Limit for an operation of the server. Only a failed test reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(5);
