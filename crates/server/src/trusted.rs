//! Trusted proxies, which may report the client, the scheme and the host of a request. The server ignores
//! forwarding headers from any other address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use thruway_message::{Authority, FieldLine, FieldLines};
use thruway_net::{ClientAddr, Networks};

/// Trusted proxies, and the headers that they write. Default: none.
///
/// Clients can forge these headers, so the server uses only entries that trusted proxies have written. It
/// reads the addresses from right to left. The first address that is not a trusted proxy counts as the
/// client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrustedProxies {
    networks: Arc<Networks>,
    fields: ProxyFields,
}

/// The headers in which proxies report the client. Choose the headers that your proxies write. Proxies
/// usually forward the other kind of headers unchanged, so clients could forge their address with those
/// headers.
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
    /// Trusts the proxies at `networks`, which write the headers `fields`.
    pub fn new(networks: Networks, fields: ProxyFields) -> Self {
        Self { networks: Arc::new(networks), fields }
    }

    /// Returns `true` if there are no trusted proxies.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Returns the headers that the proxies write.
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

    /// Returns `self` if `address` is a trusted proxy, and otherwise `None`.
    #[inline]
    pub(crate) fn at(&self, address: ClientAddr) -> Option<&Self> {
        (!self.is_empty() && self.contains(address)).then_some(self)
    }

    /// Returns the client, scheme and host of a request that came from `proxy` with the headers `lines`. If
    /// an entry contains no valid address, the proxy that has written the entry counts as the client.
    pub(crate) fn origin<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
        match self.fields {
            ProxyFields::XForwarded => x_forwarded(self, proxy, lines),
            ProxyFields::Forwarded => forwarded(self, proxy, lines),
        }
    }

    /// Returns the entries that trusted proxies have written, in the order of the header.
    pub(crate) fn chain<'a>(&self, proxy: ClientAddr, lines: FieldLines<'a>) -> Vec<&'a [u8]> {
        let mut chain = Vec::new();
        walk(self, proxy, lines, |member| chain.push(member));
        chain.reverse();
        chain
    }
}

/// Reads `X-Forwarded-For`. Takes the scheme and the host from the last entries of `X-Forwarded-Proto` and
/// `X-Forwarded-Host`.
fn x_forwarded<'a>(proxies: &TrustedProxies, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
    let client = walk(proxies, proxy, lines, |_| {});
    let nearest = |name| members_from_right(lines, name, Quotes::None).next();
    Origin {
        client,
        scheme: nearest("x-forwarded-proto").and_then(scheme),
        host: nearest("x-forwarded-host").and_then(host),
    }
}

/// Reads `Forwarded` (RFC 7239). Takes the scheme and the host from the entry that names the client.
fn forwarded<'a>(proxies: &TrustedProxies, proxy: ClientAddr, lines: FieldLines<'a>) -> Origin<'a> {
    let mut entry = None;
    let client = walk(proxies, proxy, lines, |element| entry = Some(element));
    let parameter = |name| entry.and_then(|element| parameter(element, name));
    Origin { client, scheme: parameter("proto").and_then(scheme), host: parameter("host").and_then(host) }
}

/// Returns the client for which `proxy` has forwarded the request. Calls `visit` for each entry that a
/// trusted proxy has written. The first call gets the entry of the proxy that is nearest to this server.
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

/// Tells if a header can contain quoted strings. A comma or semicolon in a quoted string does not separate
/// entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Some,
}

/// Returns the members of all headers `name` as one list, in reverse order. Reading from left to right would
/// be unsafe: a quotation mark from the client could hide the entries that proxies have appended.
fn members_from_right<'a>(
    lines: FieldLines<'a>,
    name: &'static str,
    quotes: Quotes,
) -> impl Iterator<Item = &'a [u8]> {
    let is_named = move |line: &FieldLine<'a>| line.name.is(name);
    lines.iter().rev().filter(is_named).flat_map(move |line| {
        let mut rest = Some(line.value.as_bytes());
        std::iter::from_fn(move || {
            let bytes = rest?;
            let comma = last_separator(bytes, b',', quotes);
            rest = comma.map(|comma| &bytes[..comma]);
            Some(bytes[comma.map_or(0, |comma| comma + 1)..].trim_ascii())
        })
        .filter(|member| !member.is_empty())
    })
}

/// Returns the position of the last `separator` outside of quoted strings.
fn last_separator(bytes: &[u8], separator: u8, quotes: Quotes) -> Option<usize> {
    let mut is_quoted = false;
    for (i, byte) in bytes.iter().enumerate().rev() {
        if *byte == b'"' && quotes == Quotes::Some && !is_escaped(&bytes[..i]) {
            is_quoted = !is_quoted;
        } else if *byte == separator && !is_quoted {
            return Some(i);
        }
    }
    None
}

/// Returns `true` if the byte after `bytes` is part of a quoted pair (RFC 9110 §5.6.4).
fn is_escaped(bytes: &[u8]) -> bool {
    bytes.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Returns the parameter `name` of an element of `Forwarded`, without quotation marks.
fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = Some(element);
    let pairs = std::iter::from_fn(|| {
        let bytes = rest?;
        let semicolon = last_separator(bytes, b';', Quotes::Some);
        rest = semicolon.map(|semicolon| &bytes[..semicolon]);
        Some(&bytes[semicolon.map_or(0, |semicolon| semicolon + 1)..])
    });
    for pair in pairs {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        if pair[..equals].trim_ascii().eq_ignore_ascii_case(name.as_bytes()) {
            let value = pair[equals + 1..].trim_ascii();
            return Some(
                value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value),
            );
        }
    }
    None
}

/// Parses an address with an optional port: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`, `2001:db8::1`
/// (RFC 7239 §6). Returns `None` for `unknown` and for obfuscated names.
fn node(bytes: &[u8]) -> Option<ClientAddr> {
    let text = str::from_utf8(bytes).ok()?;
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
    // An obfuscated port (RFC 7239 §6.3) counts as unknown.
    let port = if port.is_empty() || port.starts_with('_') { 0 } else { port.parse().ok()? };
    Some(ClientAddr::Tcp(SocketAddr::new(address.to_canonical(), port)))
}

fn scheme(bytes: &[u8]) -> Option<&'static str> {
    SCHEMES.into_iter().find(|scheme| bytes.eq_ignore_ascii_case(scheme.as_bytes()))
}

fn host(bytes: &[u8]) -> Option<&str> {
    let authority = Authority::parse(bytes).ok()?;
    (!bytes.is_empty()).then(|| authority.as_str())
}

/// Schemes that proxies use with HTTP clients.
const SCHEMES: [&str; 4] = ["https", "http", "wss", "ws"];

/// Maximum number of proxies in a chain. Further entries of the header are ignored.
const HOPS_MAX: usize = 64;
