//! Those who connect, told apart by where they come from.

use thruway_server::{InvalidNetwork, Networks, ProxyFields, TrustedProxies};

use super::resolver::Resolver;
use crate::config::raw::RawProxyFields;
use crate::config::spanned::Spanned;

pub(super) fn resolve_networks(resolver: &mut Resolver<'_>, raw: &[Spanned<String>]) -> Networks {
    let network = |text: &Spanned<String>| match text.get_ref().parse() {
        Ok(network) => Some(network),
        Err(error) => {
            let error: InvalidNetwork = error;
            resolver.refuse_with(text, error, InvalidNetwork::HINT);
            None
        }
    };
    raw.iter().filter_map(network).collect()
}

/// Proxies in front that are believed.
pub(super) fn resolve_trusted_proxies(
    resolver: &mut Resolver<'_>,
    networks: &[Spanned<String>],
    fields: RawProxyFields,
) -> TrustedProxies {
    let fields = match fields {
        RawProxyFields::XForwarded => ProxyFields::XForwarded,
        RawProxyFields::Forwarded => ProxyFields::Forwarded,
    };
    TrustedProxies::new(resolve_networks(resolver, networks), fields)
}
