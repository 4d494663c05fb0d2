//! Proxies in front that are believed.

use thruway_server::{InvalidNetwork, ProxyFields, TrustedProxies};

use super::Resolver;
use crate::config::raw::RawProxyFields;
use crate::config::spanned::Spanned;

impl Resolver<'_> {
    pub(super) fn trusted_proxies(
        &mut self,
        networks: Vec<Spanned<String>>,
        fields: RawProxyFields,
    ) -> TrustedProxies {
        if let Some(network) = networks.get(NETWORKS_MAX) {
            self.refuse_with(
                network,
                format!("there are more than {NETWORKS_MAX} networks"),
                "put those that stand side by side together: `10.0.0.0/8`",
            );
        }
        let mut parsed = Vec::new();
        for network in networks.into_iter().take(NETWORKS_MAX) {
            match network.get_ref().parse() {
                Ok(network) => parsed.push(network),
                Err(error) => self.refuse_with(&network, error, InvalidNetwork::HINT),
            }
        }
        let fields = match fields {
            RawProxyFields::XForwarded => ProxyFields::XForwarded,
            RawProxyFields::Forwarded => ProxyFields::Forwarded,
        };
        TrustedProxies::new(parsed, fields)
    }
}

/// They are compared one after the other.
const NETWORKS_MAX: usize = 1_000;
