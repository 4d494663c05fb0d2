//! A client of a scene.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::Peer;

/// A client, and the connection that the server drives for it. Whatever the client does is followed by what
/// the server does about it.
pub struct Client {
    peer: Peer,
    /// `None` when the server has let go of the connection.
    connection: Option<Pin<Box<dyn Future<Output = ()>>>>,
    wakes: Arc<Wakes>,
}

/// `true` if the connection must be polled.
struct Wakes(AtomicBool);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Client {
    pub(super) fn new(peer: Peer, connection: Pin<Box<dyn Future<Output = ()>>>) -> Self {
        let mut client =
            Self { peer, connection: Some(connection), wakes: Arc::new(Wakes(AtomicBool::new(true))) };
        client.run();
        client
    }

    /// Lets the server do all that it can do now.
    ///
    /// # Panics
    /// The server is busy for ever.
    pub fn run(&mut self) {
        let waker = Waker::from(self.wakes.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..POLLS_MAX {
            if !self.wakes.0.swap(false, Ordering::Relaxed) {
                return;
            }
            if let Some(connection) = &mut self.connection
                && let Poll::Ready(()) = connection.as_mut().poll(&mut cx)
            {
                self.connection = None;
            }
        }
        panic!("the connection does not come to rest");
    }

    /// Does something, and lets the server do what it does about it.
    fn act(&mut self, action: impl FnOnce(&Peer)) -> &mut Self {
        action(&self.peer);
        self.run();
        self
    }

    /// Sends bytes, which arrive in one piece.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.act(|peer| peer.send(bytes))
    }

    /// Sends nothing more, but goes on reading.
    pub fn finish(&mut self) -> &mut Self {
        self.act(Peer::finish)
    }

    /// Breaks the connection off.
    pub fn reset(&mut self) -> &mut Self {
        self.act(Peer::reset)
    }

    /// Accepts only this number of bytes from now on.
    pub fn take_only(&mut self, bytes: usize) -> &mut Self {
        self.peer.take_only(bytes);
        self
    }

    /// Accepts this number of further bytes.
    pub fn take_more(&mut self, bytes: usize) -> &mut Self {
        self.act(|peer| peer.take_more(bytes))
    }

    /// Splits the sent bytes into pieces of at most this size.
    pub fn cut_into(&mut self, bytes: usize) -> &mut Self {
        self.peer.cut_into(bytes);
        self
    }

    /// Returns the bytes that arrived since the last call.
    pub fn received_bytes(&mut self) -> Vec<u8> {
        self.run();
        self.peer.received()
    }

    /// Returns the same as text.
    ///
    /// # Panics
    /// It is none.
    pub fn received(&mut self) -> String {
        String::from_utf8(self.received_bytes()).expect("the answer should be text")
    }

    /// Returns the number of bytes that the server has not read.
    pub fn unread(&self) -> usize {
        self.peer.unread()
    }

    /// Returns the number of writes of the server.
    pub fn writes(&self) -> usize {
        self.peer.writes()
    }

    /// Returns `true` if the server sends nothing more.
    pub fn is_finished(&mut self) -> bool {
        self.run();
        self.peer.is_finished()
    }

    /// Returns `true` if the server has marked the end of its output.
    pub fn is_end_told(&self) -> bool {
        self.peer.is_end_told()
    }

    /// Returns `true` if the server has discarded the output that the client did not accept.
    pub fn is_unsent_discarded(&self) -> bool {
        self.peer.is_unsent_discarded()
    }

    /// Makes the server drop the connection at once.
    pub fn cut_off(&mut self) -> &mut Self {
        self.connection = None;
        self
    }

    /// Returns `true` if the server has dropped the connection.
    pub fn is_closed(&mut self) -> bool {
        self.run();
        self.connection.is_none()
    }
}

/// No scenario needs more without an outer event.
const POLLS_MAX: usize = 100_000;
