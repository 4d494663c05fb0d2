//! A server on a port of its own, and what its clients have in common.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use thruway_server::{Config, IntoHandler, ListenAddr, Listener, RunningServer, Server};

/// A server with two workers. It runs until the process ends, unless it is drained.
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

    /// One that was set up already.
    pub(crate) fn of(server: Server) -> Self {
        let server = server.start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("one address was asked for") };
        Self { server, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// How many connections the workers count as open.
    pub(crate) fn connections(&self) -> Vec<usize> {
        self.server.loads().iter().map(|load| load.connections).collect()
    }

    /// Waits until so many connections are open.
    pub(crate) fn until_open(&self, connections: usize) {
        until(|| self.connections().iter().sum::<usize>() == connections);
    }
}

/// Waits until `is_so`, of which nobody can tell us.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        if is_so() {
            return;
        }
        thread::sleep(PAUSE);
    }
    panic!("nothing has changed for {PATIENCE:?}");
}

/// What the server sends until it closes the connection in good order.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let mut octets = Vec::new();
    let outcome = stream.read_to_end(&mut octets);
    let text = String::from_utf8(octets).unwrap();
    assert!(outcome.is_ok(), "{outcome:?} after {text:?}");
    text
}

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// How long to wait for a server that has gone wrong.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How often to look.
const PAUSE: Duration = Duration::from_millis(5);
