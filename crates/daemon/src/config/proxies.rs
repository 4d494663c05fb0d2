//! The keys `trusted_proxies` and `trusted_proxies_write`, and networks in other places.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_server::{InvalidNetwork, Networks, ProxyFields, TrustedProxies};

use super::resolver::Resolver;
use super::spanned::Spanned;

/// The fields in which proxies say who asks.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawProxyFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

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
