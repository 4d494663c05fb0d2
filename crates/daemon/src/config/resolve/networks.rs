//! Those who connect, told apart by where they come from.

use thruway_server::{InvalidNetwork, Networks, ProxyFields, TrustedProxies};

use super::Resolver;
use crate::config::raw::RawProxyFields;
use crate::config::spanned::Spanned;

impl Resolver<'_> {
    pub(super) fn networks(&mut self, raw: &[Spanned<String>]) -> Networks {
        let network = |text: &Spanned<String>| match text.get_ref().parse() {
            Ok(network) => Some(network),
            Err(error) => {
                let error: InvalidNetwork = error;
                self.refuse_with(text, error, InvalidNetwork::HINT);
                None
            }
        };
        raw.iter().filter_map(network).collect()
    }

    /// Proxies in front that are believed.
    pub(super) fn trusted_proxies(
        &mut self,
        networks: &[Spanned<String>],
        fields: RawProxyFields,
    ) -> TrustedProxies {
        let fields = match fields {
            RawProxyFields::XForwarded => ProxyFields::XForwarded,
            RawProxyFields::Forwarded => ProxyFields::Forwarded,
        };
        TrustedProxies::new(self.networks(networks), fields)
    }
}
