//! HTTP/2 streams that carry tunnels, for clients and servers (RFC 8441 §5, RFC 9113 §8.5).

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};

use crate::transport::Transport;

/// An HTTP/2 stream as a byte stream in both directions.
pub struct Http2Stream<H = ()> {
    to: SendStream<Bytes>,
    from: RecvStream,
    /// Received bytes that the caller has not read yet.
    piece: Bytes,
    /// A value from the caller. The value is dropped together with the stream.
    _held: H,
}

impl<H> Http2Stream<H> {
    /// Creates a byte stream from an HTTP/2 stream whose request and response headers were already
    /// exchanged. Keeps `held` until the stream is dropped.
    pub const fn new(to: SendStream<Bytes>, from: RecvStream, held: H) -> Self {
        Self { to, from, piece: Bytes::new(), _held: held }
    }

    /// Waits until flow control allows writing. Returns the number of bytes that may be written, at most
    /// `wanted`.
    fn poll_write_capacity(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        self.to.reserve_capacity(wanted);
        let mut capacity = self.to.capacity();
        while capacity == 0 && wanted > 0 {
            match ready!(self.to.poll_capacity(cx)) {
                Some(granted) => capacity = granted.map_err(|error| broken(&error))?,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        Poll::Ready(Ok(capacity.min(wanted)))
    }
}

impl<H: 'static> Transport for Http2Stream<H> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.piece.is_empty() {
            match ready!(self.from.poll_data(cx)) {
                Some(data) => self.piece = data.map_err(|error| broken(&error))?,
                None => return Poll::Ready(Ok(0)),
            }
        }
        let read = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..read]);
        // The call fails only if more bytes are released than have arrived. This code never releases so
        // many bytes.
        let _ = self.from.flow_control().release_capacity(read);
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Some(first) = slices.iter().find(|slice| !slice.is_empty()) else { return Poll::Ready(Ok(0)) };
        let capacity = ready!(self.poll_write_capacity(cx, first.len()))?;
        let sent = self.to.send_data(Bytes::copy_from_slice(&first[..capacity]), false);
        Poll::Ready(sent.map(|()| capacity).map_err(|error| broken(&error)))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; ready!(self.poll_write_capacity(cx, length.min(FILE_BYTES)))?];
        let read = file.read_at(&mut bytes, offset)?;
        self.poll_write(cx, &[IoSlice::new(&bytes[..read])])
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.to.send_data(Bytes::new(), true).map_err(|error| broken(&error)))
    }

    fn discard_unsent(&mut self) {
        self.to.send_reset(Reason::CANCEL);
    }
}

fn broken(error: &h2::Error) -> io::Error {
    let kind = if error.is_reset() { io::ErrorKind::ConnectionReset } else { io::ErrorKind::BrokenPipe };
    kind.into()
}

/// Number of bytes read from a file at a time.
const FILE_BYTES: usize = 64 << 10;
