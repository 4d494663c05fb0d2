//! The method CONNECT (RFC 9110 §9.3.6). A client requests a tunnel to a host, and the gateway opens the
//! tunnel if the config allows the host.
//!
//! ```text
//! CONNECT host:port ─▶ check the host ─▶ resolve ─▶ check the addresses ─▶ connect ─▶ 200, tunnel
//!                      │ 403               │ 502       │ 403                   │ 502, 504
//! ```
//!
//! Without a restriction, clients could use CONNECT to connect to every address that the gateway can reach.
//! Therefore, the config must list the allowed hosts. If the name of an allowed host resolves to a private
//! address, the config must also allow this address.

mod config;
mod reach;
mod open;

use std::sync::Arc;

use thruway_client::{DnsResolver, Resolve};
use thruway_message::{RequestTarget, StatusCode};
use thruway_server::{Answer, Handler, Request, Response};

use crate::Failure;

pub use config::ConnectConfig;
use config::Destination;
use open::{Opening, open};

/// The handler of CONNECT requests.
#[derive(Clone, Debug)]
pub struct Connect {
    config: Arc<ConnectConfig>,
    resolver: Arc<dyn Resolve>,
    is_recorded: bool,
}

impl Connect {
    /// Returns a handler with the settings in `config`. The handler sends DNS queries itself. The resolver
    /// library of the system would block a thread during each lookup, so clients could block many threads by
    /// requesting many names.
    pub fn new(config: ConnectConfig) -> Self {
        Self::with_resolver(config, Arc::new(DnsResolver::default()))
    }

    /// Returns a handler with the settings in `config` that uses `resolver` for DNS lookups.
    pub fn with_resolver(config: ConnectConfig, resolver: Arc<dyn Resolve>) -> Self {
        Self { config: Arc::new(config), resolver, is_recorded: false }
    }

    /// Sets whether access logs contain the destination of each tunnel. Default `false`.
    #[must_use]
    pub fn recorded(self, is_recorded: bool) -> Self {
        Self { is_recorded, ..self }
    }
}

impl Handler for Connect {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let RequestTarget::Authority(authority) = request.target() else {
            return Answer::Now(Response::new(StatusCode::METHOD_NOT_ALLOWED).with_field("Allow", "CONNECT"));
        };
        let worker = request.worker().clone();
        match Destination::of(authority, &self.config) {
            Some(destination) => Answer::later(open(
                Opening {
                    config: self.config.clone(),
                    resolver: self.resolver.clone(),
                    is_recorded: self.is_recorded,
                    trace: request.trace().cloned(),
                },
                destination,
                worker,
            )),
            None => Answer::Now(Failure::DestinationRefused.to_response()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostMatch;

    /// Regression test: if no DNS server answered, the lookup blocked a thread of the system's resolver. The
    /// thread stayed blocked long after the client had received an error.
    #[test]
    fn connect_uses_async_dns_resolver_instead_of_threads() {
        let connect = Connect::new(ConnectConfig::to(vec![HostMatch::Any]));
        assert!(format!("{:?}", connect.resolver).starts_with("DnsResolver"));
    }
}
