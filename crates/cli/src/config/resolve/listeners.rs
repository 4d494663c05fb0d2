//! Where to listen.

use thruway_gateway::{HashBy, TcpConfig, UpstreamConfig};
use thruway_server::{InvalidListenAddr, ListenAddr, ProxyProtocol};

use super::super::raw::{Period, RawHttp2, RawListener, RawProxies, RawProxyProtocol, RawTcp, TextOrTable};
use super::super::spanned::Spanned;
use super::super::{
    Failure, Http2, LISTED_HINT, ListenerConfig, Span, TcpListenerConfig, Upstreams, is_listed,
};
use super::Resolver;
use super::upstreams::SOME_PERIOD;

impl From<RawHttp2> for Http2 {
    fn from(raw: RawHttp2) -> Self {
        match raw {
            RawHttp2::No => Self::No,
            RawHttp2::Too => Self::Too,
            RawHttp2::Only => Self::Only,
        }
    }
}

impl Resolver<'_> {
    pub(super) fn listeners(&mut self, raw: Vec<RawListener>, upstreams: &Upstreams) -> Vec<ListenerConfig> {
        if raw.is_empty() {
            self.failures.push(
                Failure::new(format!("`{}` has no listener", self.source.path.display()))
                    .with_hint("add one: `[[listeners]]` and below it `address = \"127.0.0.1:8080\"`"),
            );
        }
        let mut listeners = Vec::new();
        for RawListener { address: text, proxy_protocol, http2, tcp } in raw {
            let http2 = http2.filter(|http2| *http2.get_ref() != RawHttp2::No);
            if let (Some(http2), Some(_)) = (&http2, &tcp) {
                self.refuse_with(http2, "a listener with `tcp` speaks no HTTP", "take `http2` or `tcp` away");
            }
            let http2 = http2.map_or(Http2::No, |http2| http2.into_inner().into());
            let proxy_protocol = self.proxy_protocol(proxy_protocol);
            let tcp = tcp.map(|tcp| self.tcp(tcp, upstreams));
            match text.get_ref().parse().map(|address| self.listener(address)) {
                Ok(address) if is_listed(listeners.iter().map(ListenerConfig::address), &address) => {
                    self.refuse_with(&text, format!("`{address}` is listened on already"), LISTED_HINT);
                }
                Ok(address) => listeners.push(ListenerConfig { address, proxy_protocol, http2, tcp }),
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

    fn tcp(&mut self, raw: Spanned<TextOrTable<RawTcp>>, upstreams: &Upstreams) -> TcpListenerConfig {
        let span = raw.span();
        let TextOrTable(RawTcp { upstream, idle_timeout }) = raw.into_inner();
        match upstreams.get(&upstream) {
            Some(config) => self.check_tcp(config, &span),
            None => self.refuse_upstream(&upstream, &span, upstreams),
        }
        let idle = self.or(idle_timeout, Period(TcpConfig::default().idle), SOME_PERIOD).0;
        TcpListenerConfig { upstream, tcp: TcpConfig { idle } }
    }

    /// Refuses what cannot be told from a stream that is not understood.
    fn check_tcp(&mut self, upstream: &UpstreamConfig, span: &Span) {
        let name = &upstream.name;
        let by_address = [None, Some(&HashBy::ClientAddress)];
        if !by_address.contains(&upstream.balance.hash_by()) {
            let message = format!("the upstream `{name}` is balanced by what only requests have");
            let hint = "streams have `balance = { hash = \"client_address\" }`, or one of the names";
            self.failures.push(self.source.failure(span.clone(), message).with_hint(hint));
        }
        if upstream.sticky.is_some() {
            let message = format!("the upstream `{name}` has sticky cookies, which streams have not");
            let hint = "`balance = { hash = \"client_address\" }` brings a client to the same server again";
            self.failures.push(self.source.failure(span.clone(), message).with_hint(hint));
        }
    }

    fn proxy_protocol(&mut self, raw: RawProxyProtocol) -> Option<ProxyProtocol> {
        let RawProxyProtocol::Yes(RawProxies { from }) = raw else { return None };
        let Some(from) = from else { return Some(ProxyProtocol::default()) };
        self.refuse_empty(&from, "`from` names at least one network", "leave it out to believe everybody");
        Some(ProxyProtocol { from: self.networks(from.get_ref()) })
    }
}
