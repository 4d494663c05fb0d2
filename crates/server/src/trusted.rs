//! Trusted proxies: they may name the client, the scheme and the host of a request. Headers from others are
//! ignored.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use thruway_message::{Authority, FieldLine, FieldLines};
use thruway_net::{ClientAddr, Networks};

/// Trusted proxies, and the headers that they write. Default: none.
///
/// A client may write what it likes into those fields, so only what such a proxy has added is believed: the
/// addresses are read from the right, and the first that is none of a trusted proxy is the client's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustedProxies {
    networks: Arc<Networks>,
    fields: ProxyFields,
}

/// The headers in which proxies name the client. They must be the headers that the proxies write: others pass
/// through proxies as a client has forged them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ProxyFields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Client, scheme and host of a request, as far as they are known.
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

    /// Returns `true` if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// The fields that they write.
    pub const fn fields(&self) -> ProxyFields {
        self.fields
    }

    /// Returns the networks of the proxies.
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Returns `true` if `address` is a trusted proxy.
    pub fn contains(&self, address: ClientAddr) -> bool {
        self.networks.contains(address)
    }

    /// These, if one of them is at `address`.
    #[inline]
    pub(crate) fn at(&self, address: ClientAddr) -> Option<&Self> {
        (!self.is_empty() && self.contains(address)).then_some(self)
    }

    /// Returns the origin of a request with these field lines from `proxy`. An address that is unreadable or
    /// hidden counts as unknown: then the client is the proxy that has written it.
    pub(crate) fn origin<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
        match self.fields {
            ProxyFields::XForwarded => x_forwarded(self, proxy, lines),
            ProxyFields::Forwarded => forwarded(self, proxy, lines),
        }
    }

    /// Returns the entries of the list that trusted proxies have written, in their order.
    pub(crate) fn chain<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Vec<&'a [u8]> {
        let mut chain = Vec::new();
        walk(self, proxy, lines, |member| chain.push(member));
        chain.reverse();
        chain
    }
}

/// Reads `X-Forwarded-For`; scheme and host are those of the nearest proxy.
fn x_forwarded<'a>(proxies: &TrustedProxies, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
    let client = walk(proxies, proxy, lines, |_| {});
    let nearest = |name| members_from_right(lines, name, Quotes::None).next();
    Origin {
        client,
        scheme: nearest("x-forwarded-proto").and_then(scheme),
        host: nearest("x-forwarded-host").and_then(host),
    }
}

/// Reads `Forwarded` (RFC 7239); scheme and host are those that the proxy reports for the client.
fn forwarded<'a>(proxies: &TrustedProxies, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
    let mut said = None;
    let client = walk(proxies, proxy, lines, |element| said = Some(element));
    let parameter = |name| said.and_then(|element| parameter(element, name));
    Origin { client, scheme: parameter("proto").and_then(scheme), host: parameter("host").and_then(host) }
}

/// Returns the client behind `proxy`. Calls `visit` for the entries that lead to it, nearest first.
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

/// Rule for commas in quoted strings.
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

/// Returns the position of the last `separator` outside of quoted strings.
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

/// Returns `true` if the byte after `octets` is part of a quoted pair (RFC 9110 §5.6.4).
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

/// Schemes that proxies use with HTTP clients.
const SCHEMES: [&str; 4] = ["https", "http", "wss", "ws"];

/// Maximum number of proxies in a chain. Further entries are ignored.
const HOPS_MAX: usize = 64;
