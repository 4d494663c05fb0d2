//! A relayed connection: the two sockets, and one flow per direction.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio::net::TcpStream;

use crate::flow::Flow;

thread_local! {
    /// All connections share this buffer, because the relay sends received bytes immediately.
    static BUFFER: RefCell<[u8; BUFFER_BYTES]> = const { RefCell::new([0; BUFFER_BYTES]) };
}

/// A client's connection and the corresponding connection to the backend.
pub(crate) struct Pair {
    client: TcpStream,
    upstream: TcpStream,
    requests: Flow,
    responses: Flow,
}

impl Pair {
    pub(crate) fn new(client: TcpStream, upstream: TcpStream) -> Self {
        Self { client, upstream, requests: Flow::default(), responses: Flow::default() }
    }

    /// Copies bytes in both directions until either side ends.
    pub(crate) async fn relay(mut self) -> io::Result<()> {
        poll_fn(|cx| BUFFER.with_borrow_mut(|buffer| self.poll(buffer, cx))).await
    }

    fn poll(&mut self, buffer: &mut [u8], cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let requests = self.requests.poll(&mut self.client, &mut self.upstream, buffer, cx);
        if requests.is_ready() {
            return requests;
        }
        self.responses.poll(&mut self.upstream, &mut self.client, buffer, cx)
    }
}

const BUFFER_BYTES: usize = 16 * 1024;
