//! Proxies in front of the server that are believed: who asks, and for what, is what they say. Others are not listened to.

mod fields;

use std::sync::Arc;

use thruway_message::FieldLines;
use thruway_net::{ClientAddr, Networks};

/// The proxies whose word is taken, and the fields in which they give it. By default there are none.
///
/// A client may write what it likes into those fields, so only what such a proxy has added is believed: the addresses are read from
/// the right, and the first that is none of a trusted proxy is the client's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustedProxies {
    networks: Arc<Networks>,
    fields: ProxyFields,
}

/// The fields in which proxies say who asks. It must be those that the proxies write: what they do not write, they pass on as clients
/// have made it up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ProxyFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Who asks, and for what, as far as it is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) client: ClientAddr,
    pub(crate) scheme: Option<&'static str>,
    pub(crate) host: Option<&'a str>,
}

impl Default for TrustedProxies {
    fn default() -> Self {
        Self::new(Networks::default(), ProxyFields::default())
    }
}

impl TrustedProxies {
    /// The proxies at `networks`, which write `fields`.
    pub fn new(networks: Networks, fields: ProxyFields) -> Self {
        Self { networks: Arc::new(networks), fields }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// The fields that they write.
    pub const fn fields(&self) -> ProxyFields {
        self.fields
    }

    /// Where they are.
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Whether one of them is at `address`.
    pub fn contains(&self, address: ClientAddr) -> bool {
        self.networks.contains(address)
    }

    /// These, if one of them is at `address`.
    #[inline]
    pub(crate) fn at(&self, address: ClientAddr) -> Option<&Self> {
        (!self.is_empty() && self.contains(address)).then_some(self)
    }

    /// What a request with these field lines, which came from `proxy`, says of its origin. An address that cannot be read, or is
    /// hidden, tells nothing: then the client is the proxy that has written it.
    pub(crate) fn origin<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
        match self.fields {
            ProxyFields::XForwarded => fields::x_forwarded(self, proxy, lines),
            ProxyFields::Forwarded => fields::forwarded(self, proxy, lines),
        }
    }

    /// What of the list in these field lines was written by trusted proxies, in its order.
    pub(crate) fn chain<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Vec<&'a [u8]> {
        let mut chain = Vec::new();
        fields::walk(self, proxy, lines, |member| chain.push(member));
        chain.reverse();
        chain
    }
}
