//! From the listeners of a config that are not for HTTP to what forwards their connections.

use std::sync::Arc;

use thruway_gateway::{ServerNames, TcpConfig, TcpForward};
use thruway_server::{ListenAddr, Listener};

use crate::config::{Config, ListenerConfig};
use crate::routes::Parts;

/// TCP forwarders, by listener.
#[derive(Clone, Default)]
pub(crate) struct Streams(Vec<Listening>);

/// One listener.
#[derive(Clone)]
pub(crate) struct Listening {
    /// Number of the listener in the config.
    pub(crate) listener: usize,
    /// Configured address, which identifies the listener across reloads.
    address: ListenAddr,
    /// The name of its upstream.
    pub(crate) upstream: String,
    /// Server names of TLS clients (SNI).
    names: Vec<(String, String)>,
    tcp: TcpConfig,
    pub(crate) forward: Arc<TcpForward>,
}

impl Streams {
    /// Builds the forwarders of `config`. Listeners that also were in `before` keep their counters.
    pub(crate) fn new(config: &Config, parts: &Parts, before: &Self) -> Self {
        let listeners = config.listeners.iter().enumerate();
        let mut before = before.0.clone();
        let listening = |(listener, config): (usize, &ListenerConfig)| {
            let tcp = config.tcp.as_ref()?;
            let kept = before.iter().position(|listening| listening.address == config.address);
            let forward = if let Some(kept) = kept {
                before.remove(kept).forward
            } else {
                let upstream = parts.upstream(&tcp.upstream)?.clone();
                Arc::new(TcpForward::by_name(upstream, by_name(&tcp.names, parts), tcp.tcp))
            };
            let (address, upstream, names) =
                (config.address.clone(), tcp.upstream.clone(), tcp.names.clone());
            Some(Listening { listener, address, upstream, names, tcp: tcp.tcp, forward })
        };
        Self(listeners.filter_map(listening).collect())
    }

    /// Forwards to the upstreams of `parts` from now on.
    pub(crate) fn follow(&self, parts: &Parts) {
        for Listening { upstream, names, tcp, forward, .. } in &self.0 {
            if let Some(upstream) = parts.upstream(upstream) {
                forward.replace(upstream.clone(), by_name(names, parts), *tcp);
            }
        }
    }

    /// Returns the listeners of `config` for the server.
    pub(crate) fn listeners(&self, config: &Config) -> Vec<Listener> {
        let all = &config.listeners;
        let listener = |(place, config): (usize, &ListenerConfig)| match self.of_listener(place) {
            Some(forward) => config.to_listener(all).streams(forward.clone()),
            None => config.to_listener(all),
        };
        config.listeners.iter().enumerate().map(listener).collect()
    }

    /// Returns the forwarder of the listener at this index.
    pub(crate) fn of_listener(&self, listener: usize) -> Option<&Arc<TcpForward>> {
        self.0.iter().find(|listening| listening.listener == listener).map(|listening| &listening.forward)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listening> {
        self.0.iter()
    }
}

/// Upstreams by the names of servers.
fn by_name(names: &[(String, String)], parts: &Parts) -> ServerNames {
    let mut by_name = ServerNames::default();
    for (name, upstream) in names {
        if let Some(upstream) = parts.upstream(upstream) {
            by_name.add(name, upstream.clone());
        }
    }
    by_name
}
