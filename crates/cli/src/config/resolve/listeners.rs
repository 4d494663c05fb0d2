//! Where to listen.

use std::net::IpAddr;

use thruway_server::{InvalidListenAddr, IpNet, ListenAddr, ProxyProtocol};

use super::super::raw::{RawListener, RawProxies, RawProxyProtocol};
use super::super::spanned::Spanned;
use super::super::{Failure, LISTED_HINT, ListenerConfig, is_listed};
use super::Resolver;

impl Resolver<'_> {
    pub(super) fn listeners(&mut self, raw: Vec<RawListener>) -> Vec<ListenerConfig> {
        if raw.is_empty() {
            self.failures.push(
                Failure::new(format!("`{}` has no listener", self.source.path.display()))
                    .with_hint("add one: `[[listeners]]` and below it `address = \"127.0.0.1:8080\"`"),
            );
        }
        let mut listeners = Vec::new();
        for RawListener { address: text, proxy_protocol } in raw {
            let proxy_protocol = self.proxy_protocol(proxy_protocol);
            match text.get_ref().parse().map(|address| self.listener(address)) {
                Ok(address) if is_listed(listeners.iter().map(ListenerConfig::address), &address) => {
                    self.refuse_with(&text, format!("`{address}` is listened on already"), LISTED_HINT);
                }
                Ok(address) => listeners.push(ListenerConfig { address, proxy_protocol }),
                Err(error) => self.refuse_with(&text, error, InvalidListenAddr::HINT),
            }
        }
        listeners
    }

    pub(super) fn listener(&self, address: ListenAddr) -> ListenAddr {
        match address {
            ListenAddr::Tcp(_) => address,
            ListenAddr::Unix(path) => ListenAddr::Unix(self.beside_config(&path)),
        }
    }

    fn proxy_protocol(&mut self, raw: RawProxyProtocol) -> Option<ProxyProtocol> {
        let RawProxyProtocol::Yes(RawProxies { from }) = raw else { return None };
        Some(ProxyProtocol { from: from.iter().filter_map(|text| self.network(text)).collect() })
    }

    /// A network, or one address.
    fn network(&mut self, raw: &Spanned<String>) -> Option<IpNet> {
        let text = raw.get_ref();
        let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().map(IpNet::from).ok());
        if network.is_none() {
            let message = format!("`{}` is not a network", text.escape_debug());
            self.refuse_with(raw, message, "write `10.0.0.0/8`, `2001:db8::/32`, or one address");
        }
        network
    }
}
