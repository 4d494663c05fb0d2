//! A connection in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use thruway_net::{PIPE_BYTES, Transport};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

use super::error::TestError;
use super::in_process::InProcessServer;
use super::watched::Failure;

/// A connection to the server of a [`TestClient`](super::TestClient), for bytes that a
/// [`TestRequest`](super::TestRequest) cannot send: invalid requests, pipelined requests, and other protocols
/// after an upgrade. Pass it to a WebSocket client, for example.
///
/// ```
/// # use std::io;
/// # use thruway_server::Router;
/// # use thruway_server::testing::TestClient;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// let client = TestClient::new(Router::new().get("/", || "hello\n"));
/// let mut connection = client.connect();
/// connection.write_all(b"GET / HTTP/1.1\r\n\r\n").await?; // has no `Host`
/// let mut response = String::new();
/// connection.read_to_string(&mut response).await?;
/// assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"));
/// # Ok(())
/// # }
/// ```
pub struct TestConnection {
    server: Rc<InProcessServer>,
    near: DuplexStream,
    /// Bytes that arrived together with the head of the response.
    early: Bytes,
    failure: Failure,
}

impl TestConnection {
    pub(super) fn new(server: &Rc<InProcessServer>, client: SocketAddr) -> Self {
        let (near, far) = duplex(PIPE_BYTES);
        let failure = server.serve(InMemory(far), client);
        Self { server: server.clone(), near, early: Bytes::new(), failure }
    }

    /// Adds bytes that reads return first.
    pub(super) fn with_early(mut self, early: Bytes) -> Self {
        self.early = early;
        self
    }

    /// Returns the failure of the handler, if any.
    pub(super) fn failure(&self) -> Option<TestError> {
        self.failure.get()
    }
}

impl AsyncRead for TestConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.server.run(cx);
        if self.early.is_empty() {
            return Pin::new(&mut self.near).poll_read(cx, buffer);
        }
        let length = self.early.len().min(buffer.remaining());
        buffer.put_slice(&self.early[..length]);
        self.early.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TestConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.server.run(cx);
        Pin::new(&mut self.near).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.server.run(cx);
        Pin::new(&mut self.near).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.server.run(cx);
        Pin::new(&mut self.near).poll_shutdown(cx)
    }
}

/// The server's end of a connection.
struct InMemory(DuplexStream);

impl Transport for InMemory {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; length.min(PIPE_BYTES)];
        let read = file.read_at(&mut bytes, offset)?;
        self.poll_write(cx, &[IoSlice::new(&bytes[..read])])
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    /// Does nothing, because the client can already read all written bytes.
    fn discard_unsent(&mut self) {}
}

impl fmt::Debug for TestConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestConnection").finish_non_exhaustive()
    }
}
