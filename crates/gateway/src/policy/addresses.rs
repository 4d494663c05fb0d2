//! Allows or refuses clients by their addresses.
//!
//! `deny` refuses its clients; then `allow`, if set, refuses all clients that it does not list. Smaller
//! networks have no priority. The policy looks at [`Request::client`].

use std::fmt;

use thruway_net::Networks;
use thruway_server::Request;

use super::refusal::Refusal;
use super::verdict::Verdict;

/// Networks of allowed and refused clients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AddressesConfig {
    /// Allows only these networks. `None` allows all.
    pub allow: Option<Networks>,
    /// Refuses these networks, with priority over `allow`.
    pub deny: Networks,
}

/// The policy.
#[derive(Debug)]
pub(super) struct Addresses {
    config: AddressesConfig,
}

impl Addresses {
    pub(super) const fn new(config: AddressesConfig) -> Self {
        Self { config }
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'static> {
        let AddressesConfig { allow, deny } = &self.config;
        let client = request.client();
        if deny.contains(client) || allow.as_ref().is_some_and(|allow| !allow.contains(client)) {
            return Verdict::Refuse(Refusal::Address);
        }
        Verdict::Continue
    }
}

impl fmt::Display for AddressesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allow, deny } = self;
        match allow {
            None => write!(f, "all clients but {deny}"),
            Some(allow) if deny.is_empty() => write!(f, "clients from {allow}"),
            Some(allow) => write!(f, "clients from {allow}, but not from {deny}"),
        }
    }
}
