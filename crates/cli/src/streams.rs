//! From the listeners of a config that are not for HTTP to what forwards their connections.

use std::sync::Arc;

use thruway_gateway::TcpForward;

use crate::config::{Config, ListenerConfig};
use crate::routes::Parts;

/// What forwards connections that are no HTTP. Listeners stay until the process ends, and so does this; upstreams are replaced.
#[derive(Clone)]
pub(crate) struct Streams(Vec<Listening>);

/// One listener.
#[derive(Clone)]
pub(crate) struct Listening {
    /// Its place among all listeners.
    pub(crate) listener: usize,
    /// The name of its upstream.
    pub(crate) upstream: String,
    pub(crate) forward: Arc<TcpForward>,
}

impl Streams {
    pub(crate) fn new(config: &Config, parts: &Parts) -> Self {
        let listeners = config.listeners.iter().enumerate();
        let listening = |(listener, config): (usize, &ListenerConfig)| {
            let tcp = config.tcp.as_ref()?;
            let forward = Arc::new(TcpForward::new(parts.upstream(&tcp.upstream)?.clone(), tcp.tcp));
            Some(Listening { listener, upstream: tcp.upstream.clone(), forward })
        };
        Self(listeners.filter_map(listening).collect())
    }

    /// Forwards to the upstreams of `parts` from now on. One that is there no longer is kept as it was.
    pub(crate) fn replace(&self, parts: &Parts) {
        for Listening { upstream, forward, .. } in &self.0 {
            match parts.upstream(upstream) {
                Some(upstream) => forward.replace(upstream.clone()),
                None => {
                    tracing::warn!(upstream, "connections are still forwarded to an upstream that is gone");
                }
            }
        }
    }

    /// What forwards the connections of the listener at this place.
    pub(crate) fn of_listener(&self, listener: usize) -> Option<&Arc<TcpForward>> {
        self.0.iter().find(|listening| listening.listener == listener).map(|listening| &listening.forward)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listening> {
        self.0.iter()
    }
}
