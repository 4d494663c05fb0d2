//! State of the ACME server, and its misbehavior.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::orders::Orders;
use super::validation;
use crate::authority::CertificateAuthority;
use crate::lock::lock;

/// Misbehavior of the ACME server.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Misbehavior {
    /// No misbehavior.
    #[default]
    None,
    /// Rejects all accounts as unknown.
    UnknownAccount,
    /// Rejects all nonces.
    RejectsAllNonces,
    /// Rejects the next nonce, and then behaves correctly.
    RejectsNextNonce,
    /// Orders stay pending. The field is the value of `Retry-After`.
    OrdersStayPending(&'static str),
    /// The validation of each name fails.
    ValidationFails,
    /// Response bodies exceed all size limits.
    OversizedResponses,
    /// Never responds to new orders.
    OrdersHang,
    /// Issues expired certificates.
    IssuesExpired,
    /// Issues certificates for another key.
    IssuesForOtherKey,
    /// Issues certificates for another name.
    IssuesForOtherName,
    /// Issues certificates that cannot be parsed.
    IssuesMalformed,
    /// Response bodies are incomplete JSON.
    TruncatedJson,
    /// The directory contains `http://` URLs.
    PlainHttpUrls,
    /// Rejects new orders with `rateLimited`. The field is the value of `Retry-After`.
    RateLimited(&'static str),
    /// Requires the validation of a name that was not ordered.
    AuthorizesOtherName,
}

/// Loopback ports at which the server validates all names.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) tls: u16,
}

pub(crate) struct State {
    pub(super) authority: CertificateAuthority,
    /// Ports for validation. A validation waits until a test sets them.
    pub(super) ports: (Mutex<Option<Ports>>, Condvar),
    pub(super) misbehavior: Mutex<Misbehavior>,
    pub(super) orders: Mutex<Orders>,
    pub(super) requests: AtomicUsize,
    /// Age of a new certificate, and its remaining validity.
    pub(super) validity: Mutex<(Duration, Duration)>,
}

impl State {
    /// Waits until the ports are set. Returns ports 0 after a timeout, so that the validation fails.
    pub(super) fn ports(&self) -> Ports {
        let (ports, changed) = &self.ports;
        let waited = changed.wait_timeout_while(lock(ports), validation::TIMEOUT, |ports| ports.is_none());
        let ports = *waited.unwrap_or_else(PoisonError::into_inner).0;
        ports.unwrap_or(Ports { http: 0, tls: 0 })
    }
}
