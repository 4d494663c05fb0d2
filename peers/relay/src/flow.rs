//! One direction of a relayed connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

/// One direction, with the received bytes that could not be sent yet.
#[derive(Default)]
pub(crate) struct Flow {
    unsent: Vec<u8>,
}

impl Flow {
    /// Copies the available bytes. Returns `Ready` when `from` has ended and the flow has sent all its bytes,
    /// or when a socket has failed.
    pub(crate) fn poll(
        &mut self,
        from: &mut TcpStream,
        to: &mut TcpStream,
        buffer: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            while !self.unsent.is_empty() {
                let sent = ready!(Pin::new(&mut *to).poll_write(cx, &self.unsent))?;
                self.unsent.drain(..sent);
            }
            let mut received = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *from).poll_read(cx, &mut received))?;
            let bytes = received.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let sent = match Pin::new(&mut *to).poll_write(cx, bytes) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            self.unsent.extend_from_slice(&bytes[sent..]);
        }
    }
}
