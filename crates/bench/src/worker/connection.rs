//! Interfaces to open connections and to send requests on these connections, for all HTTP versions.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_client::ConnectError;
use thruway_net::Transport;
use thruway_net::tls::TlsFailure;

use super::dispatch::Worker;
use super::plan::StartedRequest;
use crate::failure::{Failure, FailureKind};

/// Opens connections to the server.
pub trait Connect {
    /// Transport of the connection.
    type Transport: Transport;

    /// Opens a connection.
    fn connect(&self) -> impl Future<Output = Result<Opened<Self::Transport>, OpenError>>;
}

/// An open connection.
#[derive(Debug)]
pub struct Opened<T> {
    /// The connection.
    pub transport: T,
    /// The TLS handshake of the connection, or `None` without TLS.
    pub handshake: Option<Handshake>,
}

impl<T> From<T> for Opened<T> {
    fn from(transport: T) -> Self {
        Self { transport, handshake: None }
    }
}

/// A TLS handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// A full handshake, in which the server sent its certificate.
    Full,
    /// A handshake that resumed a session.
    Resumed,
}

/// Reason why a connection could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The TCP connection or the TLS handshake failed.
    Connect(ConnectError),
    /// The server did not select HTTP/2 in the TLS handshake (ALPN).
    NotHttp2,
}

impl OpenError {
    /// Returns the next step for the user of `thruway bench`, if there is one.
    pub const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::NotHttp2 => "omit `--http2` to use HTTP/1.1",
            Self::Connect(ConnectError::Refused) => "check that the server runs and uses this port",
            Self::Connect(ConnectError::SocketNotFound) => "check that the server runs and uses this socket",
            Self::Connect(ConnectError::TimedOut | ConnectError::Unreachable) => {
                "check the address and firewalls"
            }
            Self::Connect(ConnectError::Tls(
                TlsFailure::CertificateUnknownIssuer
                | TlsFailure::CertificateForOtherName
                | TlsFailure::CertificateExpired,
            )) => "trust its issuer with `--ca FILE`, or skip the verification with `--insecure`",
            Self::Connect(ConnectError::LocalAddressUnavailable) => {
                "an address of this machine has about 28,000 ports: use fewer connections (`-c`)"
            }
            Self::Connect(ConnectError::DescriptorsExhausted) => "allow more descriptors with `ulimit -n`",
            Self::Connect(_) => return None,
        })
    }

    /// Returns `true` if the error is a timeout.
    pub(crate) const fn is_timeout(self) -> bool {
        matches!(self, Self::Connect(ConnectError::TimedOut | ConnectError::Tls(TlsFailure::TimedOut)))
    }
}

impl From<ConnectError> for OpenError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::NotHttp2 => f.write_str("the server does not support HTTP/2"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Connect(error) => error.into(),
            OpenError::NotHttp2 => Self::of(FailureKind::NotHttp2),
        }
    }
}

/// A connection that sends requests in one version of HTTP.
pub(super) trait WireProtocol<T> {
    /// Creates a connection over `transport`, on which nothing has been sent yet.
    fn new(transport: T, worker: &Worker) -> Self;

    /// Returns the time at which the caller must call `poll` even if no event has occurred.
    fn deadline(&self, worker: &Worker) -> Option<Duration>;

    /// Accepts a request. The next call of `poll` sends this request.
    fn ask(&mut self, worker: &Worker, ticket: StartedRequest);

    /// Reads available input, and sends further requests if the schedule allows it.
    fn poll(&mut self, cx: &mut Context<'_>, worker: &Worker, slot: usize) -> Poll<Ended>;
}

/// Reason why a connection has ended.
pub(super) enum Ended {
    /// The load is over.
    Over,
    /// The connection has ended. The results of its requests are recorded.
    Closed,
    /// The server announced that it closes the connection, and did not process these requests (RFC 9112
    /// §9.6, RFC 9113 §6.8).
    Unhandled(VecDeque<StartedRequest>),
}

/// Writes the bytes of `output` after the offset `written`. Keeps the bytes that the transport does not
/// accept yet.
#[inline]
pub(super) fn poll_flush<T: Transport>(
    transport: &mut T,
    output: &mut Vec<u8>,
    written: &mut usize,
    cx: &mut Context<'_>,
) -> io::Result<()> {
    while *written < output.len() {
        match transport.poll_write(cx, &[IoSlice::new(&output[*written..])]) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(count)) => *written += count,
            Poll::Ready(Err(error)) => return Err(error),
        }
    }
    output.clear();
    *written = 0;
    Ok(())
}
