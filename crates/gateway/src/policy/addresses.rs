//! Allows or refuses clients by their addresses.
//!
//! The policy refuses all clients in the networks of `deny`. If `allow` is set, the policy also refuses all
//! clients outside of the networks of `allow`. `deny` takes precedence even over a smaller network in
//! `allow`. The policy checks the address that [`Request::client`] returns.

use std::fmt;

use thruway_net::Networks;
use thruway_server::Request;

use super::refusal::Refusal;
use super::verdict::Verdict;

/// Settings of the address policy: the networks of allowed and refused clients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AddressesConfig {
    /// The policy allows only clients in these networks. `None` allows all clients.
    pub allow: Option<Networks>,
    /// The policy refuses clients in these networks, even if `allow` contains their addresses.
    pub deny: Networks,
}

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
            None => write!(f, "all clients except {deny}"),
            Some(allow) if deny.is_empty() => write!(f, "clients from {allow}"),
            Some(allow) => write!(f, "clients from {allow}, but not from {deny}"),
        }
    }
}
