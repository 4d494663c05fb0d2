//! Upstream servers that follow the instructions of a test on each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::gateway::TEST_TIMEOUT;

/// A server that hands its connections to the test.
pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    connections: Receiver<TcpStream>,
    is_over: Arc<AtomicBool>,
}

impl Script {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (sender, connections) = channel();
        let shared = is_over.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.load(Ordering::SeqCst) || sender.send(stream).is_err() {
                    return;
                }
            }
        });
        Self { address, connections, is_over }
    }

    /// Accepts the next connection of the gateway.
    pub(crate) fn accept(&self) -> Accepted {
        let stream = self.connections.recv_timeout(TEST_TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Accepted(stream)
    }

    /// `true` if no connection is waiting to be accepted.
    pub(crate) fn has_no_connection(&self) -> bool {
        self.connections.try_recv().is_err()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

/// A connection from the gateway.
pub(crate) struct Accepted(pub(crate) TcpStream);

impl Accepted {
    /// Returns the next head, unchanged.
    pub(crate) fn head(&mut self) -> String {
        self.until("\r\n\r\n")
    }

    /// Reads up to and including `end`.
    pub(crate) fn until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            assert_eq!(self.0.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&read));
            read.extend(byte);
        }
        String::from_utf8(read).unwrap()
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Waits until the gateway closes or resets the connection, and returns the bytes before that.
    pub(crate) fn wait_for_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the connection is still open")
            }
            Ok(_) | Err(_) => rest,
        }
    }
}
