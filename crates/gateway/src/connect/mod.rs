//! CONNECT: tunnels to where clients name, if the config lets them (RFC 9110 §9.3.6).
//!
//! ```text
//! CONNECT host:port ─▶ destination: is it allowed ─▶ resolve ─▶ reach: which of its addresses ─▶ connect ─▶ 200, octets both ways
//!                          │ 403                      │ 502         │ 403                        │ 502, 504
//! ```
//! A gateway that does this can be made to speak for its clients wherever it gets itself. So nothing is allowed that is not named; and of
//! what is named, addresses that are not of the whole internet are reached only if they are named themselves, whatever names resolve to
//! them.

mod destination;
mod reach;
mod open;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::{DnsResolver, Resolve};
use thruway_message::{RequestTarget, StatusCode};
use thruway_server::{Answer, Handler, Networks, Request, Response};

use crate::{Failure, HostMatch};
use destination::Destination;

/// Which tunnels are made, and how long they are waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectConfig {
    /// The hosts that may be named: names, or addresses.
    pub hosts: Vec<HostMatch>,
    /// The ports that may be named. Default 443.
    pub ports: Vec<u16>,
    /// Addresses that may be reached although they are not of the whole internet, or are this machine's. Default none.
    pub private: Networks,
    /// Whether tunnels may lead to listeners of this process, where they may lead to their addresses at all. Default no: they are for others
    /// than those who may ask for tunnels.
    pub own_listeners: bool,
    /// How long it may take to resolve a name and to connect. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a tunnel may be without an octet in either direction. Default 10 minutes, as for streams.
    pub idle: Duration,
}

/// Makes tunnels.
#[derive(Clone, Debug)]
pub struct Connect {
    config: Arc<ConnectConfig>,
    resolver: Arc<dyn Resolve>,
    is_recorded: bool,
}

impl ConnectConfig {
    /// Tunnels to these hosts, and otherwise the defaults.
    pub fn to(hosts: Vec<HostMatch>) -> Self {
        Self {
            hosts,
            ports: vec![443],
            private: Networks::default(),
            own_listeners: false,
            connect_timeout: Duration::from_secs(5),
            idle: Duration::from_mins(10),
        }
    }
}

impl Connect {
    /// Makes tunnels as `config` says. Names are looked up without the system's library: a thread of that stays with its question however
    /// long that takes, and clients choose the names.
    pub fn new(config: ConnectConfig) -> Self {
        Self::with_resolver(config, Arc::new(DnsResolver::default()))
    }

    /// The same, where names are looked up elsewhere.
    pub fn with_resolver(config: ConnectConfig, resolver: Arc<dyn Resolve>) -> Self {
        Self { config: Arc::new(config), resolver, is_recorded: false }
    }

    /// Whether responses tell where their tunnels lead: for access logs that say so. Default no.
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
        match Destination::of(authority, &self.config) {
            Some(destination) => {
                Answer::later(open::open(self.clone(), destination, request.worker().clone()))
            }
            None => Answer::Now(Failure::DestinationRefused.to_response()),
        }
    }
}

/// Where tunnels may lead.
impl fmt::Display for ConnectConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts.iter().map(HostMatch::to_string).collect();
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let plural = if ports.len() == 1 { "" } else { "s" };
        write!(f, "tunnels to {}, port{plural} {}", hosts.join(", "), ports.join(", "))?;
        if !self.private.is_empty() {
            write!(f, ", also at {}", self.private)?;
        }
        if self.own_listeners { f.write_str(", also to listeners here") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once each name that nobody answered for kept a thread of the system's resolver, long after its client had been told so.
    #[test]
    fn names_that_clients_choose_are_not_looked_up_by_threads() {
        let connect = Connect::new(ConnectConfig::to(vec![HostMatch::Any]));
        assert!(format!("{:?}", connect.resolver).starts_with("DnsResolver"));
    }
}
