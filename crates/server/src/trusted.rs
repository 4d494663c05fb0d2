//! Proxies in front of the server that are believed: who asks, and for what, is what they say. Others are not
//! listened to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use thruway_message::{Authority, FieldLine, FieldLines};
use thruway_net::{ClientAddr, Networks};

/// The proxies whose word is taken, and the fields in which they give it. By default there are none.
///
/// A client may write what it likes into those fields, so only what such a proxy has added is believed: the
/// addresses are read from the right, and the first that is none of a trusted proxy is the client's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustedProxies {
    networks: Arc<Networks>,
    fields: ProxyFields,
}

/// The fields in which proxies say who asks. It must be those that the proxies write: what they do not write,
/// they pass on as clients have made it up.
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

    /// What a request with these field lines, which came from `proxy`, says of its origin. An address that
    /// cannot be read, or is hidden, tells nothing: then the client is the proxy that has written it.
    pub(crate) fn origin<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
        match self.fields {
            ProxyFields::XForwarded => x_forwarded(self, proxy, lines),
            ProxyFields::Forwarded => forwarded(self, proxy, lines),
        }
    }

    /// What of the list in these field lines was written by trusted proxies, in its order.
    pub(crate) fn chain<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Vec<&'a [u8]> {
        let mut chain = Vec::new();
        walk(self, proxy, lines, |member| chain.push(member));
        chain.reverse();
        chain
    }
}

/// By `X-Forwarded-For`; scheme and host are what the nearest proxy says.
fn x_forwarded<'a>(proxies: &TrustedProxies, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
    let client = walk(proxies, proxy, lines, |_| {});
    let nearest = |name| members_from_right(lines, name, Quotes::None).next();
    Origin {
        client,
        scheme: nearest("x-forwarded-proto").and_then(scheme),
        host: nearest("x-forwarded-host").and_then(host),
    }
}

/// By `Forwarded` (RFC 7239); scheme and host are what the proxy says that the client has asked.
fn forwarded<'a>(proxies: &TrustedProxies, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
    let mut said = None;
    let client = walk(proxies, proxy, lines, |element| said = Some(element));
    let parameter = |name| said.and_then(|element| parameter(element, name));
    Origin { client, scheme: parameter("proto").and_then(scheme), host: parameter("host").and_then(host) }
}

/// Who the client of `proxy` is. Shows `visit` the members that say so, from the nearest on.
fn walk<'a>(
    proxies: &TrustedProxies,
    proxy: ClientAddr,
    lines: FieldLines<'a>,
    mut visit: impl FnMut(&'a [u8]),
) -> ClientAddr {
    let (name, quotes) = match proxies.fields {
        ProxyFields::XForwarded => ("x-forwarded-for", Quotes::None),
        ProxyFields::Forwarded => ("forwarded", Quotes::Some),
    };
    let mut client = proxy;
    for member in members_from_right(lines, name, quotes).take(HOPS_MAX) {
        if !proxies.contains(client) {
            break;
        }
        visit(member);
        let address = match proxies.fields {
            ProxyFields::XForwarded => node(member),
            ProxyFields::Forwarded => parameter(member, "for").and_then(node),
        };
        match address {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

/// Whether a comma may stand in a quoted string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Some,
}

/// The members of all lines named `name` as one list, the last first. From the left, a quotation mark of a
/// client would hide what a proxy has put behind it.
fn members_from_right<'a>(
    lines: FieldLines<'a>,
    name: &'static str,
    quotes: Quotes,
) -> impl Iterator<Item = &'a [u8]> {
    let is_named = move |line: &FieldLine<'a>| line.name.is(name);
    lines.iter().rev().filter(is_named).flat_map(move |line| {
        let mut rest = Some(line.value.as_bytes());
        std::iter::from_fn(move || {
            let octets = rest?;
            let comma = last_separator(octets, b',', quotes);
            rest = comma.map(|comma| &octets[..comma]);
            Some(octets[comma.map_or(0, |comma| comma + 1)..].trim_ascii())
        })
        .filter(|member| !member.is_empty())
    })
}

/// Where the last `separator` is that stands in no quoted string.
fn last_separator(octets: &[u8], separator: u8, quotes: Quotes) -> Option<usize> {
    let mut is_quoted = false;
    for (i, octet) in octets.iter().enumerate().rev() {
        if *octet == b'"' && quotes == Quotes::Some && !is_escaped(&octets[..i]) {
            is_quoted = !is_quoted;
        } else if *octet == separator && !is_quoted {
            return Some(i);
        }
    }
    None
}

/// Whether what comes behind `octets` is part of a quoted pair (RFC 9110 §5.6.4).
fn is_escaped(octets: &[u8]) -> bool {
    octets.iter().rev().take_while(|octet| **octet == b'\\').count() % 2 == 1
}

/// The value of the parameter `name` of an element of `Forwarded`, without its quotation marks.
fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = Some(element);
    let pairs = std::iter::from_fn(|| {
        let octets = rest?;
        let semicolon = last_separator(octets, b';', Quotes::Some);
        rest = semicolon.map(|semicolon| &octets[..semicolon]);
        Some(&octets[semicolon.map_or(0, |semicolon| semicolon + 1)..])
    });
    for pair in pairs {
        let Some(equals) = pair.iter().position(|octet| *octet == b'=') else { continue };
        if pair[..equals].trim_ascii().eq_ignore_ascii_case(name.as_bytes()) {
            let value = pair[equals + 1..].trim_ascii();
            return Some(
                value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value),
            );
        }
    }
    None
}

/// An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`, `2001:db8::1` (RFC 7239
/// §6). `unknown` and names that hide one are none.
fn node(octets: &[u8]) -> Option<ClientAddr> {
    let text = str::from_utf8(octets).ok()?;
    let (address, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let port = if port.is_empty() { port } else { port.strip_prefix(':')? };
        (IpAddr::V6(address.parse().ok()?), port)
    } else if let Ok(address) = text.parse() {
        (address, "")
    } else {
        let (address, port) = text.split_once(':')?;
        (IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), port)
    };
    // One that is hidden, as RFC 7239 §6.3 has it, is none.
    let port = if port.is_empty() || port.starts_with('_') { 0 } else { port.parse().ok()? };
    Some(ClientAddr::Tcp(SocketAddr::new(address.to_canonical(), port)))
}

fn scheme(octets: &[u8]) -> Option<&'static str> {
    SCHEMES.into_iter().find(|scheme| octets.eq_ignore_ascii_case(scheme.as_bytes()))
}

fn host(octets: &[u8]) -> Option<&str> {
    let authority = Authority::parse(octets).ok()?;
    (!octets.is_empty()).then(|| authority.as_str())
}

/// Those that proxies speak with clients of HTTP.
const SCHEMES: [&str; 4] = ["https", "http", "wss", "ws"];

/// Of more proxies than these, one behind the other, none is asked.
const HOPS_MAX: usize = 64;
