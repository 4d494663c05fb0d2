//! TLS state of a connection in rustls: keys and protocol state, without buffers.

use std::io::IoSlice;

use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, unbuffered::InsufficientSizeError};

use super::scratch::{RECORD_CONTENT_BYTES, RECORDS_AT_A_TIME, Scratch};
use crate::thread_state::ThreadState;

/// TLS state of a client or a server.
pub(super) enum Session {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// Result of a step of the TLS state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// The step made progress, and the caller should take another step.
    Moved,
    /// The peer has sent `close_notify`.
    PeerClosed,
    /// The next step needs more input.
    Waits,
}

/// Result of an encryption: the number of encrypted data bytes, and the number of bytes in the resulting
/// records.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sealed {
    pub(super) content: usize,
    pub(super) records: usize,
}

/// Data to encrypt, or a `close_notify` alert.
enum ToSeal<'a> {
    Content(&'a [IoSlice<'a>]),
    CloseNotify,
}

impl Scratch {
    /// Takes the buffers of this thread. Creates new buffers if the buffers of the thread are in use.
    pub(super) fn take() -> Self {
        ThreadState::with(|thread| thread.tls_scratch.take()).unwrap_or_else(Self::new)
    }

    /// Returns the buffers to this thread.
    pub(super) fn give_back(self) {
        ThreadState::with(|thread| thread.tls_scratch.set(Some(self)));
    }
}

impl Session {
    /// Processes the next records in `input`. Returns the number of processed bytes, and the result. Passes
    /// received data to `take`, and appends response records to `unsent`.
    pub(super) fn step(
        &mut self,
        input: &mut [u8],
        take: impl FnMut(&[u8]),
        unsent: &mut Vec<u8>,
    ) -> (usize, Result<Progress, Error>) {
        match self {
            Self::Client(client) => step(&mut **client, input, take, unsent),
            Self::Server(server) => step(&mut **server, input, take, unsent),
        }
    }

    /// Appends the alert of a failed connection to `unsent`, so that the peer learns the reason. Does not
    /// read `input`.
    pub(super) fn take_alert(&mut self, input: &mut [u8], unsent: &mut Vec<u8>) {
        while self.common().wants_write() {
            if self.step(input, |_| {}, unsent).1.is_err() {
                return;
            }
        }
    }

    /// Encrypts some bytes of `slices` into the output buffer of `scratch`. The output must be sent after
    /// `unsent`. `input` and `take` have the same meaning as in [`step`](Self::step).
    pub(super) fn seal(
        &mut self,
        slices: &[IoSlice<'_>],
        scratch: &mut Scratch,
        input: &mut Input<'_>,
        take: impl FnMut(&[u8]),
        unsent: &mut Vec<u8>,
    ) -> Result<Sealed, Error> {
        self.seal_any(&ToSeal::Content(slices), scratch, input, take, unsent)
    }

    /// Encrypts a `close_notify` alert. The parameters have the same meaning as in [`seal`](Self::seal).
    pub(super) fn seal_close_notify(
        &mut self,
        scratch: &mut Scratch,
        input: &mut Input<'_>,
        take: impl FnMut(&[u8]),
        unsent: &mut Vec<u8>,
    ) -> Result<Sealed, Error> {
        self.seal_any(&ToSeal::CloseNotify, scratch, input, take, unsent)
    }

    fn seal_any(
        &mut self,
        input_kind: &ToSeal<'_>,
        scratch: &mut Scratch,
        input: &mut Input<'_>,
        take: impl FnMut(&[u8]),
        unsent: &mut Vec<u8>,
    ) -> Result<Sealed, Error> {
        match self {
            Self::Client(client) => seal(&mut **client, input_kind, scratch, input, take, unsent),
            Self::Server(server) => seal(&mut **server, input_kind, scratch, input, take, unsent),
        }
    }

    /// Returns the part of the TLS state that clients and servers have in common.
    pub(super) fn common(&self) -> &CommonState {
        match self {
            Self::Client(client) => client,
            Self::Server(server) => server,
        }
    }

    pub(super) const fn is_server(&self) -> bool {
        matches!(self, Self::Server(_))
    }
}

/// Received records, and the number of bytes that were already processed.
pub(super) struct Input<'i> {
    pub(super) bytes: &'i mut [u8],
    pub(super) used: usize,
    /// `true` if the records contain the peer's `close_notify`.
    pub(super) is_peer_closed: bool,
}

impl<'i> Input<'i> {
    pub(super) const fn new(bytes: &'i mut [u8]) -> Self {
        Self { bytes, used: 0, is_peer_closed: false }
    }
}

/// Common interface of the two connection types of rustls.
trait Process {
    type Data;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Process for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

impl Process for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

fn step<P: Process>(
    side: &mut P,
    input: &mut [u8],
    take: impl FnMut(&[u8]),
    unsent: &mut Vec<u8>,
) -> (usize, Result<Progress, Error>) {
    let UnbufferedStatus { discard, state } = side.process(input);
    (discard, state.and_then(|state| handle(state, take, unsent)))
}

/// Handles a state that rustls returned. Does not encrypt data.
fn handle<D>(
    state: ConnectionState<'_, '_, D>,
    mut take: impl FnMut(&[u8]),
    unsent: &mut Vec<u8>,
) -> Result<Progress, Error> {
    match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                take(record?.payload);
            }
            Ok(Progress::Moved)
        }
        ConnectionState::EncodeTlsData(data) => {
            encode(data, unsent);
            Ok(Progress::Moved)
        }
        ConnectionState::TransmitTlsData(data) => {
            // In this state, rustls waits until the records are sent. The caller sends `unsent` before all
            // other data, so the records count as sent.
            data.done();
            Ok(Progress::Moved)
        }
        ConnectionState::PeerClosed => Ok(Progress::PeerClosed),
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) | ConnectionState::Closed => {
            Ok(Progress::Waits)
        }
        // The remaining states occur only with early data (0-RTT), which this code never enables.
        _ => Err(Error::General("unexpected state of the TLS library".to_owned())),
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, unsent: &mut Vec<u8>) {
    let start = unsent.len();
    let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = data.encode(&mut [])
    else {
        return;
    };
    unsent.resize(start + required_size, 0);
    // The call cannot fail, because the vector has the size that the first call required.
    let written = data.encode(&mut unsent[start..]).unwrap_or_default();
    unsent.truncate(start + written);
}

/// Processes received records until data can be encrypted, and then encrypts `input_kind`.
fn seal<P: Process>(
    side: &mut P,
    input_kind: &ToSeal<'_>,
    scratch: &mut Scratch,
    input: &mut Input<'_>,
    mut take: impl FnMut(&[u8]),
    unsent: &mut Vec<u8>,
) -> Result<Sealed, Error> {
    loop {
        let UnbufferedStatus { discard, state } = side.process(&mut input.bytes[input.used..]);
        let progress = match state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                input.used += discard;
                return match input_kind {
                    ToSeal::Content(slices) => seal_records(&mut traffic, slices, scratch),
                    ToSeal::CloseNotify => {
                        let sealed = traffic.queue_close_notify(&mut scratch.output);
                        sealed
                            .map(|records| Sealed { content: 0, records })
                            .map_err(|error| exhausted(&error))
                    }
                };
            }
            state => handle(state, &mut take, unsent)?,
        };
        input.used += discard;
        match progress {
            Progress::Moved => {}
            Progress::PeerClosed => input.is_peer_closed = true,
            Progress::Waits => return Err(Error::HandshakeNotComplete),
        }
    }
}

/// Encrypts the bytes of `slices` into records, and fills each record before the next. A message head and
/// the start of the body then share one record.
fn seal_records<D>(
    traffic: &mut WriteTraffic<'_, D>,
    slices: &[IoSlice<'_>],
    scratch: &mut Scratch,
) -> Result<Sealed, Error> {
    let mut sealed = Sealed::default();
    let mut pieces = Pieces { slices, taken: 0 };
    for _ in 0..RECORDS_AT_A_TIME {
        let content = pieces.next_record(&mut scratch.joined);
        if content.is_empty() {
            break;
        }
        sealed.records += traffic
            .encrypt(content, &mut scratch.output[sealed.records..])
            .map_err(|error| exhausted(&error))?;
        sealed.content += content.len();
    }
    Ok(sealed)
}

/// Converts the error of a failed encryption. The output buffer has enough space, so the keys must have
/// reached their usage limit.
fn exhausted(error: &EncryptError) -> Error {
    Error::General(error.to_string())
}

/// Slices of data to encrypt, without the bytes that were already taken.
struct Pieces<'s> {
    slices: &'s [IoSlice<'s>],
    /// Number of bytes already taken from the first slice.
    taken: usize,
}

impl<'s> Pieces<'s> {
    /// Returns the bytes of the next record. If the first slice contains the whole record, returns a part
    /// of that slice. Otherwise copies the bytes of several slices to `joined`.
    fn next_record<'r>(&mut self, joined: &'r mut [u8]) -> &'r [u8]
    where
        's: 'r,
    {
        let first = self.rest();
        let is_last = self.slices.len() <= 1;
        if is_last || first.len() >= RECORD_CONTENT_BYTES {
            let length = first.len().min(RECORD_CONTENT_BYTES);
            self.taken += length;
            return &first[..length];
        }
        let mut filled = 0;
        while filled < joined.len() {
            let rest = self.rest();
            if rest.is_empty() {
                break;
            }
            let length = rest.len().min(joined.len() - filled);
            joined[filled..filled + length].copy_from_slice(&rest[..length]);
            filled += length;
            self.taken += length;
        }
        &joined[..filled]
    }

    /// Returns the bytes of the first slice that has bytes left.
    fn rest(&mut self) -> &'s [u8] {
        while let [first, others @ ..] = self.slices {
            if self.taken < first.len() {
                let first: &'s [u8] = first;
                return &first[self.taken..];
            }
            (self.slices, self.taken) = (others, 0);
        }
        &[]
    }
}
