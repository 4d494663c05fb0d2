//! State of the ACME server, and its misbehaviour.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::orders::Orders;
use super::validation;
use crate::authority::Authority;
use crate::lock::lock;

/// Misbehaviour of the server from now on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Misbehaviour {
    /// No misbehaviour.
    #[default]
    None,
    /// It knows no account.
    AccountUnknown,
    /// No number is fresh enough for it.
    BadNonce,
    /// One number is not fresh enough for it; then it behaves.
    BadNonceOnce,
    /// Orders stay as they are; `Retry-After` is this.
    Dawdles(&'static str),
    /// It has found no name.
    FindsNobody,
    /// Its answers have no end.
    Giant,
    /// It answers no order.
    Hangs,
    /// It issues expired certificates.
    IssuesExpired,
    /// It issues certificates for another key.
    IssuesForOtherKey,
    /// It issues certificates for another name.
    IssuesForOtherName,
    /// It issues invalid certificates.
    IssuesGarbage,
    /// Its answers are cut off.
    MalformedJson,
    /// Its directory names URLs without TLS.
    PlainUrls,
    /// It refuses orders; `Retry-After` is this.
    RateLimited(&'static str),
    /// It wants names to be validated that were not ordered.
    UnknownName,
}

/// Ports for validation, for all names.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) tls: u16,
}

pub(crate) struct State {
    pub(super) authority: Authority,
    /// Ports for validation; a validation waits until they are known.
    pub(super) ports: (Mutex<Option<Ports>>, Condvar),
    pub(super) misbehaviour: Mutex<Misbehaviour>,
    pub(super) orders: Mutex<Orders>,
    pub(super) requests: AtomicUsize,
    /// Age of a certificate when it is issued, and its remaining validity.
    pub(super) validity: Mutex<(Duration, Duration)>,
}

impl State {
    pub(super) fn ports(&self) -> Ports {
        let (ports, told) = &self.ports;
        let waited = told.wait_timeout_while(lock(ports), validation::PATIENCE, |ports| ports.is_none());
        let ports = *waited.unwrap_or_else(PoisonError::into_inner).0;
        ports.unwrap_or(Ports { http: 0, tls: 0 })
    }
}
