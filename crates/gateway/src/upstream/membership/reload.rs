//! Starts the background tasks of an upstream, and replaces an upstream on reload.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thruway_client::Resolve;

use super::dns;
use crate::upstream::background;
use crate::upstream::config::UpstreamConfig;
use crate::upstream::health::checks;
use crate::upstream::health::server_health::Checked;
use crate::upstream::request_key::RequestKey;
use crate::upstream::upstream::Upstream;

impl Upstream {
    /// Starts [health checks](UpstreamConfig::check) and DNS lookups. A host name has no servers before its
    /// first lookup. The background tasks end when the upstream is dropped. Call this method only once.
    pub fn start(self: &Arc<Self>) -> dns::FirstLookup {
        self.start_with(self.config.resolver.resolver())
    }

    /// Starts the background tasks like [`start`](Self::start), with `resolver` for DNS lookups.
    pub fn start_with(self: &Arc<Self>, resolver: Arc<dyn Resolve>) -> dns::FirstLookup {
        self.members.load().list.iter().for_each(|server| checks::start(self, server));
        dns::start(self, resolver)
    }

    /// Creates an upstream with `config` that will replace `before`. Servers that are still in the config
    /// keep their state, including the number of requests in flight. Host names keep their addresses until
    /// the next lookup. Requests in flight stay in `before` until they end. `before` does not change until
    /// you [start](Self::start) the new upstream and call [`replace`](Self::replace).
    pub fn after(config: UpstreamConfig, before: &Self) -> Self {
        let members = before.members.after(&before.config, &config);
        Self {
            connections: before.connections.clone(),
            retries: before.retries.clone(),
            statistics: before.statistics.clone(),
            successor: before.successor.clone(),
            ..Self::with(config, members)
        }
    }

    /// Replaces the upstream `before` by this upstream, and ends the background tasks of `before`. Requests
    /// that wait in the queue of `before` get a server of this upstream.
    pub fn replace(self: &Arc<Self>, before: &Self) {
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(self);
        before.is_replaced.store(true, Ordering::Relaxed);
        self.connections.requests.notify_all();
        if self.config.check.is_none() && before.config.check.is_some() {
            // If health checks are now disabled, a server that was down must count as up again. Otherwise,
            // the next check updates its state.
            let servers = self.members.load_full();
            background::spawn(|| async move {
                servers.list.iter().for_each(|server| server.health().set_checked(Checked::NotYet));
            });
        }
    }

    /// Returns the upstream that handles a request with `key`. If this upstream was replaced, the replacement
    /// handles the request. If the replacement has no server yet, this upstream handles the request. The same
    /// applies if only one of the two upstreams uses the PROXY protocol.
    pub(crate) fn in_place(self: &Arc<Self>, key: &RequestKey) -> Cow<'_, Arc<Self>> {
        if !self.is_replaced() {
            return Cow::Borrowed(self);
        }
        let present = self.successor.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let takes = |present: &Arc<Self>| {
            present.config.proxy_protocol.is_some() == key.proxied.is_some()
                && !present.members.load().list.is_empty()
        };
        present.filter(takes).map_or(Cow::Borrowed(self), Cow::Owned)
    }
}
