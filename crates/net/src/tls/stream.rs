//! A transport that encrypts and decrypts data with TLS over another transport.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use rustls::{HandshakeKind, ProtocolVersion};

use super::failure::broken;
use super::scratch::{RECORD_BYTES_MAX, Scratch};
use super::session::{Input, Progress, Session};
use crate::buffers::PooledBuffer;
use crate::stream::Stream;
use crate::tls_info::{PeerCertificate, TlsInfo, TlsVersion};
use crate::transport::Transport;

/// A TLS connection.
///
/// Data counts as written when the underlying transport has accepted it. While
/// [`poll_write`](Transport::poll_write) is pending, the next call must start with the same bytes. A
/// connection without pending data uses no buffer. If the underlying connection ends before the peer has
/// sent `close_notify`, reading returns an error.
pub struct TlsStream<T: Transport = Stream> {
    pub(super) transport: T,
    pub(super) session: Session,
    /// Received records that are incomplete or not decrypted yet.
    pub(super) sealed: PooledBuffer,
    /// Decrypted data that the caller has not read.
    pub(super) opened: Unread,
    pub(super) unsent: Unsent,
    /// Number of data bytes in `unsent` that `poll_write` has not reported as written yet.
    unreported: usize,
    pub(super) end: End,
    /// `true` if `close_notify` was already encrypted.
    is_close_sealed: bool,
    /// The server name (SNI) that the client requested.
    pub(super) server_name: Option<Box<str>>,
}

/// State of the end of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The connection is open.
    No,
    /// The peer has sent `close_notify`.
    PeerClosed,
    /// The connection has failed. Reading and writing are impossible.
    Broken,
}

/// Decrypted bytes, and the number of bytes that the caller has already read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    bytes: PooledBuffer,
    taken: usize,
}

/// Encrypted records to send, and the number of bytes that are already written.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pub(super) bytes: PooledBuffer,
    written: usize,
}

impl<T: Transport> TlsStream<T> {
    pub(super) fn new(transport: T, session: Session, early: PooledBuffer) -> Self {
        Self {
            transport,
            session,
            sealed: early,
            opened: Unread::default(),
            unsent: Unsent::default(),
            unreported: 0,
            end: End::No,
            is_close_sealed: false,
            server_name: None,
        }
    }

    /// Returns the protocol that was negotiated with ALPN (RFC 7301), if any.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.session.common().alpn_protocol()
    }

    /// Returns `true` if the session of an earlier connection was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the parameters of the connection. Moves the server name into the result, so that a second
    /// call returns no server name.
    pub fn take_info(&mut self) -> TlsInfo {
        let common = self.session.common();
        let suite = common.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let group = common.negotiated_key_exchange_group().and_then(|group| group.name().as_str());
        let certificate = common.peer_certificates().and_then(|chain| chain.first());
        TlsInfo {
            version: match common.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
                _ => TlsVersion::Tls13,
            },
            cipher_suite: suite.unwrap_or_default(),
            key_exchange: group.unwrap_or_default(),
            alpn: common.alpn_protocol().map(Box::from),
            is_resumed: self.is_resumed(),
            peer_certificate: certificate.map(PeerCertificate::of),
            server_name: self.server_name.take(),
        }
    }

    /// Decrypts the received records into `buffer`. Reads more records if the received records contain no
    /// data.
    fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        scratch: &mut Scratch,
    ) -> Poll<io::Result<usize>> {
        let input = &mut scratch.input;
        let mut filled = self.sealed.len();
        if filled > 0 {
            input[..filled].copy_from_slice(&self.sealed);
            self.sealed = PooledBuffer::default();
        }
        loop {
            let mut arrived = Input::new(&mut input[..filled]);
            let opened = self.open(&mut arrived, buffer);
            let used = arrived.used;
            input.copy_within(used..filled, 0);
            filled -= used;
            match opened {
                Ok(0) if self.end == End::No => {}
                outcome => {
                    self.keep(&input[..filled]);
                    return Poll::Ready(outcome);
                }
            }
            // Limits the read to the size of `buffer`, or to the size of one record if `buffer` is smaller.
            let most = input.len().min(buffer.len().max(RECORD_BYTES_MAX) + filled);
            if filled == most {
                return Poll::Ready(Err(self.fail(io::ErrorKind::InvalidData.into())));
            }
            match self.transport.poll_read(cx, &mut input[filled..most]) {
                Poll::Pending => {
                    self.keep(&input[..filled]);
                    // Sends the responses to the records of the peer now, because the caller may not write
                    // soon.
                    let _ = self.poll_unsent(cx)?;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(self.fail(io::ErrorKind::UnexpectedEof.into())));
                }
                Poll::Ready(Ok(read)) => filled += read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.fail(error))),
            }
        }
    }

    /// Decrypts records until `buffer` is full or no complete record is left. Stores data that does not fit
    /// into `buffer`.
    fn open(&mut self, input: &mut Input<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && self.end == End::No {
            let opened = &mut self.opened;
            let take = |content: &[u8]| {
                let (fitting, rest) = content.split_at(content.len().min(buffer.len() - filled));
                buffer[filled..filled + fitting.len()].copy_from_slice(fitting);
                filled += fitting.len();
                opened.append(rest);
            };
            let unread = &mut input.bytes[input.used..];
            let (used, progress) = self.session.step(unread, take, self.unsent.records());
            match progress {
                Ok(Progress::Moved) => {}
                Ok(Progress::Waits) => {
                    input.used += used;
                    break;
                }
                Ok(Progress::PeerClosed) => self.end = End::PeerClosed,
                Err(error) => {
                    self.session.take_alert(unread, self.unsent.records());
                    self.end = End::Broken;
                    return if filled > 0 { Ok(filled) } else { Err(broken(error)) };
                }
            }
            input.used += used;
        }
        Ok(filled)
    }

    /// Encrypts some bytes of `slices`, and sends the new records after the unsent records. Stores the
    /// records that the transport does not accept.
    fn poll_seal(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        scratch: &mut Scratch,
    ) -> Poll<io::Result<usize>> {
        let mut input = Input::new(&mut self.sealed);
        let opened = &mut self.opened;
        let records = self.unsent.records();
        let sealed =
            self.session.seal(slices, scratch, &mut input, |content| opened.append(content), records);
        let (used, is_peer_closed) = (input.used, input.is_peer_closed);
        self.drop_sealed(used, is_peer_closed);
        let sealed = sealed.map_err(|error| self.fail(broken(error)))?;
        let output = &scratch.output[..sealed.records];
        let ahead = self.unsent.left();
        let total = ahead.len() + output.len();
        let attempt = match ahead {
            [] => self.transport.poll_write(cx, &[IoSlice::new(output)]),
            ahead => self.transport.poll_write(cx, &[IoSlice::new(ahead), IoSlice::new(output)]),
        };
        let written = match attempt {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(self.fail(error))),
            Poll::Pending => 0,
        };
        if written == total {
            self.unsent = Unsent::default();
            return Poll::Ready(Ok(sealed.content));
        }
        self.unsent.records().extend_from_slice(output);
        self.unsent.written += written;
        self.unreported = sealed.content;
        Poll::Pending
    }

    /// Sends all unsent records.
    pub(super) fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.left().is_empty() {
            match ready!(self.transport.poll_write(cx, &[IoSlice::new(self.unsent.left())]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.unsent.written += written,
            }
        }
        self.unsent = Unsent::default();
        Poll::Ready(Ok(()))
    }

    /// Returns the number of bytes that earlier calls have encrypted and that can now be reported as
    /// written. The number is at most the length of `slices`.
    fn report_written(&mut self, slices: &[IoSlice<'_>]) -> usize {
        let sent = self.unreported.min(length_of(slices));
        self.unreported -= sent;
        sent
    }

    /// Encrypts `close_notify`, unless it was already encrypted.
    fn seal_close_notify(&mut self) {
        if self.is_close_sealed || self.end == End::Broken || self.session.common().is_handshaking() {
            return;
        }
        self.is_close_sealed = true;
        let mut scratch = Scratch::take();
        let mut input = Input::new(&mut self.sealed);
        let opened = &mut self.opened;
        let records = self.unsent.records();
        let take = |content: &[u8]| opened.append(content);
        let sealed = self.session.seal_close_notify(&mut scratch, &mut input, take, records);
        let (used, is_peer_closed) = (input.used, input.is_peer_closed);
        self.drop_sealed(used, is_peer_closed);
        match sealed {
            Ok(sealed) => self.unsent.records().extend_from_slice(&scratch.output[..sealed.records]),
            Err(_) => self.end = End::Broken,
        }
        scratch.give_back();
    }

    /// Stores received records for the next call.
    fn keep(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && self.end == End::No {
            self.sealed = PooledBuffer::copy_of(bytes);
        }
    }

    /// Removes processed records from `sealed`. If `is_peer_closed` is `true`, sets the state of the
    /// connection to [`End::PeerClosed`].
    fn drop_sealed(&mut self, bytes: usize, is_peer_closed: bool) {
        if is_peer_closed {
            self.end = End::PeerClosed;
        }
        if bytes == self.sealed.len() {
            self.sealed = PooledBuffer::default();
        } else {
            self.sealed.drain(..bytes);
        }
    }

    fn fail(&mut self, error: io::Error) -> io::Error {
        self.end = End::Broken;
        error
    }
}

impl<T: Transport> Transport for TlsStream<T> {
    fn is_secured(&self) -> bool {
        true
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let taken = self.opened.take(buffer);
        if taken > 0 || buffer.is_empty() {
            return Poll::Ready(Ok(taken));
        }
        match self.end {
            End::No => {
                let mut scratch = Scratch::take();
                let outcome = self.poll_open(cx, buffer, &mut scratch);
                scratch.give_back();
                if self.end == End::Broken {
                    // Tries to send the alert, if any, but does not wait if the socket cannot accept it.
                    let _ = self.poll_unsent(cx);
                }
                outcome
            }
            End::PeerClosed => Poll::Ready(Ok(0)),
            End::Broken => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.end == End::Broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.unreported > 0 || self.unsent.is_long() {
            ready!(self.poll_unsent(cx))?;
            if self.unreported > 0 {
                return Poll::Ready(Ok(self.report_written(slices)));
            }
        }
        if length_of(slices) == 0 {
            return Poll::Ready(Ok(0));
        }
        let mut scratch = Scratch::take();
        let outcome = self.poll_seal(cx, slices, &mut scratch);
        scratch.give_back();
        if outcome.is_pending() {
            // Polls the transport again, because a partial write has registered no waker.
            ready!(self.poll_unsent(cx))?;
            return Poll::Ready(Ok(self.report_written(slices)));
        }
        outcome
    }

    fn has_written_part(&self) -> bool {
        self.unreported > 0 && self.unsent.is_begun()
    }

    /// Reads the file into memory, because the data must be encrypted.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = PooledBuffer::take();
        bytes.resize(length.min(FILE_BYTES), 0);
        let read = file.read_at(&mut bytes, offset)?;
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        self.poll_write(cx, &[IoSlice::new(&bytes[..read])])
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        self.transport.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.seal_close_notify();
        self.poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.seal_close_notify();
        ready!(self.poll_unsent(cx))?;
        self.transport.poll_shutdown(cx)
    }

    fn discard_unsent(&mut self) {
        self.end = End::Broken;
        self.unsent = Unsent::default();
        self.transport.discard_unsent();
    }
}

impl<T: Transport> fmt::Debug for TlsStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Unread {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.bytes.capacity() == 0 {
            self.bytes = PooledBuffer::take();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Copies as many bytes as fit into `buffer`. Returns the number of bytes.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let left = &self.bytes[self.taken..];
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.taken += length;
        if self.taken == self.bytes.len() && self.taken > 0 {
            *self = Self::default();
        }
        length
    }
}

impl Unsent {
    /// Returns the vector to which more records can be appended.
    pub(super) fn records(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Returns `true` if at least some of the bytes were written.
    fn is_begun(&self) -> bool {
        self.written > 0 || self.bytes.is_empty()
    }

    /// Returns `true` if the unsent records are longer than `TOGETHER_BYTES`. Long unsent records must be
    /// sent before new data is encrypted.
    fn is_long(&self) -> bool {
        self.left().len() > TOGETHER_BYTES
    }
}

fn length_of(slices: &[IoSlice<'_>]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}

/// Number of bytes read from a file at a time. TLS encrypts the same number of bytes at a time.
const FILE_BYTES: usize = 48 << 10;

/// Maximum length of the unsent records that one write can combine with new data, in bytes. Session
/// tickets, alerts and key changes are shorter, but handshake messages may be longer.
const TOGETHER_BYTES: usize = 4 << 10;
