//! An upstream in the place of another, whose config was changed while it ran.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::upstream::health::condition::Checked;
use crate::upstream::server::Server;
use crate::upstream::{RequestKey, ServerAddr, Upstream, UpstreamConfig, background};

impl Upstream {
    /// The upstream that `config` describes, in the place of `before`: servers that stay are known as they were, requests that they are
    /// answering included, and names have the addresses that they had until they are looked up. Requests that servers are answering
    /// go on in `before`, until all of them have ended. Nothing changes there until this is [started](Self::start), and [`replace`](Self::replace)
    /// was called.
    pub fn after(config: UpstreamConfig, before: &Self) -> Self {
        let servers_before = before.servers.load();
        let mut servers = Vec::new();
        for (origin, server) in config.servers.iter().enumerate() {
            match &server.address {
                ServerAddr::Address(address) => {
                    let known = servers_before.list.iter().find(|server| server.address == *address);
                    let condition = known.map(|server| server.condition.clone()).unwrap_or_default();
                    servers.push(Arc::new(Server::known(&config, origin, address.clone(), condition)));
                }
                name @ ServerAddr::Name { .. } => {
                    let known =
                        servers_before.list.iter().filter(|server| before.address_of(server) == Some(name));
                    servers.extend(known.map(|server| {
                        let (address, condition) = (server.address.clone(), server.condition.clone());
                        Arc::new(Server::known(&config, origin, address, condition))
                    }));
                }
            }
        }
        drop(servers_before);
        Self::with(config, servers, before.ongoing.clone())
    }

    /// Is in the place of `before` from here on, which is no longer looked after. Who waits there for a server is given one of these.
    pub fn replace(self: &Arc<Self>, before: &Self) {
        *self.ongoing.present.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(self);
        before.is_replaced.store(true, Ordering::Relaxed);
        self.ongoing.queue.servers_have_changed();
        if self.config.check.is_none() && before.config.check.is_some() {
            // Nobody would ever find out that it is up again. Where checks are made, behind the last of them.
            let servers = self.servers.load_full();
            background::spawn(|| async move {
                servers.list.iter().for_each(|server| server.condition.set_checked(Checked::NotYet));
            });
        }
    }

    /// Whether another is in its place.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// The upstream that a request of `key` is for now: if another is in the place of this one, that; unless it wants to know what was not asked of
    /// the client, or has no server yet.
    pub(crate) fn in_place(self: &Arc<Self>, key: &RequestKey) -> Cow<'_, Arc<Self>> {
        if !self.is_replaced() {
            return Cow::Borrowed(self);
        }
        let present = self.ongoing.present.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let takes = |present: &Arc<Self>| {
            present.config.proxy_protocol.is_some() == key.proxied.is_some()
                && !present.servers.load().list.is_empty()
        };
        present.filter(takes).map_or(Cow::Borrowed(self), Cow::Owned)
    }

    /// What the config calls `server`.
    fn address_of(&self, server: &Server) -> Option<&ServerAddr> {
        self.config.servers.get(server.origin).map(|config| &config.address)
    }
}
