//! Stores TLS sessions with servers, so that clients can resume these sessions.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;

/// Session store with a configurable number of tickets for each server. The store in rustls keeps only
/// eight tickets. A client that opens more connections at the same time needs more tickets.
pub(super) struct Sessions {
    /// Stores everything except TLS 1.3 tickets.
    others: ClientSessionMemoryCache,
    tickets: Mutex<Tickets>,
    tickets_max: usize,
    servers_max: usize,
}

type Tickets = HashMap<ServerName<'static>, VecDeque<Tls13ClientSessionValue>>;

impl Sessions {
    /// Creates a store for `servers_max` servers with `tickets_max` tickets each.
    pub(super) fn new(servers_max: usize, tickets_max: usize) -> Self {
        let others = ClientSessionMemoryCache::new(servers_max);
        Self { others, tickets: Mutex::default(), tickets_max, servers_max }
    }

    /// Locks the tickets even if another thread has panicked, because a panic cannot leave the tickets
    /// inconsistent.
    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.others.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.others.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.others.set_tls12_session(server_name, value);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.others.tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.others.remove_tls12_session(server_name);
    }

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.tickets();
        if tickets.len() >= self.servers_max && !tickets.contains_key(&server_name) {
            // Removing all tickets is harmless: the next connections only need full handshakes.
            tickets.clear();
        }
        let of_server = tickets.entry(server_name).or_default();
        if of_server.len() >= self.tickets_max {
            of_server.pop_front();
        }
        of_server.push_back(value);
    }

    /// Removes and returns the newest ticket, because each ticket should be used only once (RFC 8446
    /// appendix C.4).
    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tickets().get_mut(server_name)?.pop_back()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sessions of {} servers", self.tickets().len())
    }
}
