//! Clients of the test server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::PipePeer;

/// A client, with the server's side of its connection. After each action of the client, the server runs until
/// it waits.
pub struct TestClient {
    peer: PipePeer,
    /// The server's task for the connection. `None` after it has ended.
    connection: Option<Pin<Box<dyn Future<Output = ()>>>>,
    wake_flag: Arc<WakeFlag>,
}

/// `true` if the connection must be polled again.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl TestClient {
    pub(super) fn new(peer: PipePeer, connection: Pin<Box<dyn Future<Output = ()>>>) -> Self {
        let mut client =
            Self { peer, connection: Some(connection), wake_flag: Arc::new(WakeFlag(AtomicBool::new(true))) };
        client.run();
        client
    }

    /// Polls the connection until the server waits for input, output or time.
    ///
    /// # Panics
    /// Panics if the server never waits.
    pub fn run(&mut self) {
        let waker = Waker::from(self.wake_flag.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..POLLS_MAX {
            if !self.wake_flag.0.swap(false, Ordering::Relaxed) {
                return;
            }
            if let Some(connection) = &mut self.connection
                && let Poll::Ready(()) = connection.as_mut().poll(&mut cx)
            {
                self.connection = None;
            }
        }
        panic!("the connection still wakes itself after {POLLS_MAX} polls");
    }

    /// Performs an action of the client, and then runs the server.
    fn act(&mut self, action: impl FnOnce(&PipePeer)) -> &mut Self {
        action(&self.peer);
        self.run();
        self
    }

    /// Sends bytes. The server can read all of them at once, unless
    /// [`limit_read_size`](Self::limit_read_size) forbids it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.act(|peer| peer.send(bytes))
    }

    /// Closes the sending direction (half-close). The client can still receive.
    pub fn finish(&mut self) -> &mut Self {
        self.act(PipePeer::finish)
    }

    /// Resets the connection.
    pub fn reset(&mut self) -> &mut Self {
        self.act(PipePeer::reset)
    }

    /// Sets the number of bytes that the server can still write. Unlimited by default.
    pub fn set_receive_capacity(&mut self, bytes: usize) -> &mut Self {
        self.peer.set_receive_capacity(bytes);
        self
    }

    /// Lets the server write this number of additional bytes.
    pub fn add_receive_capacity(&mut self, bytes: usize) -> &mut Self {
        self.act(|peer| peer.add_receive_capacity(bytes))
    }

    /// Limits each read of the server to this number of bytes.
    pub fn limit_read_size(&mut self, bytes: usize) -> &mut Self {
        self.peer.limit_read_size(bytes);
        self
    }

    /// Returns the bytes that the client has received since the previous call.
    pub fn received_bytes(&mut self) -> Vec<u8> {
        self.run();
        self.peer.received()
    }

    /// Returns the bytes that the client has received since the previous call, as text.
    ///
    /// # Panics
    /// Panics if the bytes are not UTF-8.
    pub fn received(&mut self) -> String {
        String::from_utf8(self.received_bytes()).expect("the response should be UTF-8")
    }

    /// Returns the number of sent bytes that the server has not read.
    pub fn unread(&self) -> usize {
        self.peer.unread()
    }

    /// Returns the number of writes by the server.
    pub fn writes(&self) -> usize {
        self.peer.writes()
    }

    /// Returns `true` if the server sends no more bytes.
    pub fn is_finished(&mut self) -> bool {
        self.run();
        self.peer.is_finished()
    }

    /// Returns `true` if the server has marked the end of its output.
    pub fn has_clean_end(&self) -> bool {
        self.peer.has_clean_end()
    }

    /// Returns `true` if the server has discarded its unsent output.
    pub fn is_unsent_discarded(&self) -> bool {
        self.peer.is_unsent_discarded()
    }

    /// Drops the connection at the server, like a worker at the end of a drain.
    pub fn drop_connection(&mut self) -> &mut Self {
        self.connection = None;
        self
    }

    /// Returns `true` if the server has dropped the connection.
    pub fn is_closed(&mut self) -> bool {
        self.run();
        self.connection.is_none()
    }
}

/// More polls than any test needs between two actions.
const POLLS_MAX: usize = 100_000;
