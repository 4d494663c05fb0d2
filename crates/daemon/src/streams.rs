//! Builds the TCP forwarders of the listeners that do not serve HTTP.

use std::sync::Arc;

use thruway_gateway::{ServerNames, TcpConfig, TcpForward};
use thruway_server::{ListenAddr, Listener};

use crate::config::{Config, ListenerConfig};
use crate::routes::Parts;

/// TCP forwarders of the listeners with `tcp`.
#[derive(Clone, Default)]
pub(crate) struct Streams(Vec<Listening>);

/// A listener with its TCP forwarder.
#[derive(Clone)]
pub(crate) struct Listening {
    /// Index of the listener in the config.
    pub(crate) listener: usize,
    /// Configured address, which identifies the listener across reloads.
    address: ListenAddr,
    /// Name of the upstream for connections that match no entry of `names`.
    pub(crate) upstream: String,
    /// Server names from TLS handshakes (SNI), each with the name of its upstream.
    names: Vec<(String, String)>,
    tcp: TcpConfig,
    pub(crate) forward: Arc<TcpForward>,
}

impl Streams {
    /// Builds the TCP forwarders of `config`. If `before` has a listener with the same address, the new
    /// forwarder takes over its counters.
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

    /// Makes the forwarders send connections to the upstreams of `parts`.
    pub(crate) fn follow(&self, parts: &Parts) {
        for Listening { upstream, names, tcp, forward, .. } in &self.0 {
            if let Some(upstream) = parts.upstream(upstream) {
                forward.replace(upstream.clone(), by_name(names, parts), *tcp);
            }
        }
    }

    /// Converts the listeners of `config` to listeners of the server.
    pub(crate) fn listeners(&self, config: &Config) -> Vec<Listener> {
        let all = &config.listeners;
        let listener = |(place, config): (usize, &ListenerConfig)| match self.of_listener(place) {
            Some(forward) => config.to_listener(all).streams(forward.clone()),
            None => config.to_listener(all),
        };
        config.listeners.iter().enumerate().map(listener).collect()
    }

    /// Returns the TCP forwarder of the listener at this index. Returns `None` if the listener serves HTTP.
    pub(crate) fn of_listener(&self, listener: usize) -> Option<&Arc<TcpForward>> {
        self.0.iter().find(|listening| listening.listener == listener).map(|listening| &listening.forward)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listening> {
        self.0.iter()
    }
}

/// Returns the upstream of each server name.
fn by_name(names: &[(String, String)], parts: &Parts) -> ServerNames {
    let mut by_name = ServerNames::default();
    for (name, upstream) in names {
        if let Some(upstream) = parts.upstream(upstream) {
            by_name.add(name, upstream.clone());
        }
    }
    by_name
}
