//! What the ACME server knows, and how it misbehaves.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::orders::Orders;
use super::validation;
use crate::authority::Authority;
use crate::lock::lock;

/// What it does wrong from now on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Misbehaviour {
    /// Nothing.
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
    /// What it issues expired long ago.
    IssuesExpired,
    /// What it issues is for another key.
    IssuesForOtherKey,
    /// What it issues is for another name.
    IssuesForOtherName,
    /// What it issues are no certificates.
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

/// Where names are validated, whatever they are.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) tls: u16,
}

pub(crate) struct State {
    pub(super) authority: Authority,
    /// Who validates a name waits until it is known.
    pub(super) ports: (Mutex<Option<Ports>>, Condvar),
    pub(super) misbehaviour: Mutex<Misbehaviour>,
    pub(super) orders: Mutex<Orders>,
    pub(super) requests: AtomicUsize,
    /// How long certificates were valid when they are issued, and how long they still are.
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
