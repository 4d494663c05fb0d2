//! A stream that is no longer HTTP: after an extended CONNECT (RFC 8441), or a success of CONNECT (RFC 9113 §8.5).

use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use thruway_net::{PooledBuffer, Transport};

use crate::Tunnel;
use crate::record::Told;
use crate::response::{TunnelHandler, TunnelTrace};

/// A stream in the hands of the handler that has made it a tunnel, and what is told of that.
pub(super) struct HandedOver {
    running: Pin<Box<dyn Future<Output = ()>>>,
    trace: Rc<TunnelTrace>,
    pub(super) told: Option<Told>,
}

impl HandedOver {
    /// Hands `octets` over.
    pub(super) fn new(handler: TunnelHandler, octets: StreamOctets, told: Option<Told>) -> Self {
        let trace = Rc::<TunnelTrace>::default();
        let tunnel = Tunnel::traced(Box::new(octets), PooledBuffer::default(), trace.clone());
        // Nothing of the handler runs before it is polled, where a panic is caught.
        let running = Box::pin(async { handler.run(tunnel).await });
        Self { running, trace, told }
    }

    /// Ready when the handler is done with it. One that panics breaks off its own stream, and no other of the connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.running.as_mut().poll(cx)));
        let Ok(polled) = polled else {
            self.trace.break_off();
            return Poll::Ready(());
        };
        ready!(polled);
        if let Some(mut octets) = self.trace.take_left()
            && !self.trace.is_broken_off()
        {
            // Otherwise what is on its way would be given up with the stream. Fails if the handler has said the end itself.
            let _ = octets.poll_shutdown(cx);
        }
        Poll::Ready(())
    }

    /// Octets that went to the client.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.trace.sent_bytes()
    }

    /// Octets that came from the client.
    pub(super) fn received_bytes(&self) -> u64 {
        self.trace.received_bytes()
    }

    /// Whether one side has broken off.
    pub(super) fn is_broken_off(&self) -> bool {
        self.trace.is_broken_off()
    }
}

/// The octets of a stream, both ways.
pub(super) struct StreamOctets {
    to: SendStream<Bytes>,
    from: RecvStream,
    /// What came and was not taken.
    piece: Bytes,
}

impl StreamOctets {
    pub(super) const fn new(to: SendStream<Bytes>, from: RecvStream) -> Self {
        Self { to, from, piece: Bytes::new() }
    }

    /// How many of `wanted` octets may be written.
    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        self.to.reserve_capacity(wanted);
        let mut room = self.to.capacity();
        while room == 0 && wanted > 0 {
            match ready!(self.to.poll_capacity(cx)) {
                Some(capacity) => room = capacity.map_err(|error| broken(&error))?,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        Poll::Ready(Ok(room.min(wanted)))
    }
}

impl Transport for StreamOctets {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.piece.is_empty() {
            match ready!(self.from.poll_data(cx)) {
                Some(data) => self.piece = data.map_err(|error| broken(&error))?,
                None => return Poll::Ready(Ok(0)),
            }
        }
        let read = self.piece.len().min(buffer.len());
        self.piece.copy_to_slice(&mut buffer[..read]);
        // Fails if it is more than has come, which it is not.
        let _ = self.from.flow_control().release_capacity(read);
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Some(first) = slices.iter().find(|slice| !slice.is_empty()) else { return Poll::Ready(Ok(0)) };
        let room = ready!(self.poll_room(cx, first.len()))?;
        let sent = self.to.send_data(Bytes::copy_from_slice(&first[..room]), false);
        Poll::Ready(sent.map(|()| room).map_err(|error| broken(&error)))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut octets = vec![0; ready!(self.poll_room(cx, length.min(FILE_BYTES)))?];
        let read = file.read_at(&mut octets, offset)?;
        self.poll_write(cx, &[IoSlice::new(&octets[..read])])
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

/// What is read of a file at a time.
const FILE_BYTES: usize = 64 << 10;
