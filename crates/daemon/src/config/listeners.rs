//! The section `listeners`: addresses, protocols and TLS.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_certificates::acme::ChallengeKind;
use thruway_gateway::{ErrorPages, HashBy, PathMatch, ResponseRules, RoutePaths, TcpConfig, UpstreamConfig};
use thruway_net::tls::TlsServerName;
use thruway_server::layers::ListenerCompression;
use thruway_server::{InvalidListenAddr, ListenAddr, ProxyProtocol};

use crate::config::acme::validates_by;
use crate::config::compression::{RawCompression, resolve_compression};
use crate::config::error_pages::{RawErrorPages, resolve_error_pages};
use crate::config::names::UniqueNames;
use crate::config::resolver::{Resolver, SOME_PERIOD};
use crate::config::response_rules::{RawResponseRule, resolve_response_rules};
use crate::config::server::resolve_networks;
use crate::config::tls::{RawListenerTlsForm, resolve_listener_tls};
use crate::config::upstreams::refuse_upstream;
use crate::config::values::{FromText, Period, Span, Spanned, TextOrTable};
use crate::config::{
    Failure, Http2, HttpsRedirect, LISTED_HINT, ListenerConfig, TcpListenerConfig, Upstreams, is_listed,
};

/// An address on which the server listens, and the protocols of connections to this address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawListener {
    /// Name of the listener, to which the key `listeners` of routes refers: 1 to 64 letters, digits, `-`, `_`
    /// and `.`. Each name may occur only once. Default: none.
    pub(in crate::config) name: Option<Spanned<String>>,
    /// Address of the listener: `IP:PORT`, with IPv6 in brackets, or `unix:PATH`. With port 0, the system
    /// chooses a port.
    pub(in crate::config) address: Spanned<String>,
    /// With `true`, each connection must start with a PROXY protocol header (version 1 or 2), which contains
    /// the client address. With a table, Thruway accepts the header only from the networks in `from`. Thruway
    /// closes connections without the header. Risk of `true`: any machine that can connect to the listener
    /// can pretend to be any client. Default: false.
    #[serde(default)]
    pub(in crate::config) proxy_protocol: RawProxyProtocol,
    /// With `true`, the listener accepts HTTP/2 and HTTP/1.1. With `"only"`, it accepts only HTTP/2. On a
    /// listener with `tls`, clients negotiate the version. On a listener without `tls`, Thruway recognizes
    /// HTTP/2 by the first bytes of a connection, so clients must use HTTP/2 without negotiation. Default:
    /// true with `tls`, otherwise false.
    pub(in crate::config) http2: Option<Spanned<RawHttp2>>,
    /// Upstream to which the listener forwards TCP connections: a name, or a table. A listener with this key
    /// does not parse HTTP requests. Default: none, the listener serves HTTP.
    pub(in crate::config) tcp: Option<Spanned<TextOrTable<RawTcp>>>,
    /// TLS for the clients of this listener: a table, or `"internal"` for development. With `"internal"`, the
    /// local CA of Thruway issues a certificate for `localhost`, for the hosts of the routes, and for the
    /// address of the listener. Clients must trust the root certificate of this CA. Default: no TLS.
    pub(in crate::config) tls: Option<Spanned<TextOrTable<RawListenerTlsForm>>>,
    /// HTTPS port. Thruway redirects all requests of this listener to the same URL with `https` and this port
    /// (status 308), except for ACME challenges. The port in the `Host` of the request has no effect. With
    /// 443, the target has no port. Set the port to which clients connect. Another listener must serve the
    /// routes. Default: no redirect.
    pub(in crate::config) redirect_to_https: Option<Spanned<u16>>,
    /// Compression of responses on this listener: `true`, `false`, or a table. A route can have a different
    /// value. Default: the top-level key `compression`.
    pub(in crate::config) compression: Option<Spanned<RawCompression>>,
    /// Changes to the headers of all responses on this listener, except for the redirects of
    /// `redirect_to_https` and for responses to invalid requests. The rules of a route apply after these
    /// rules, so the route takes precedence. Values cannot contain `{rest}`. Default: none.
    #[serde(default)]
    pub(in crate::config) response_rules: Vec<Spanned<RawResponseRule>>,
    /// Pages for the error responses on this listener: of routes without `error_pages`, and for requests that
    /// match no route (404, 405 and 400). Responses to requests that Thruway cannot read, such as 431, get no
    /// page. Default: none.
    pub(in crate::config) error_pages: Option<Spanned<RawErrorPages>>,
}

/// Protocol versions of HTTP that a listener accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum RawHttp2 {
    No,
    Too,
    Only,
}

/// Forwarding of TCP connections.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawTcp {
    /// Name of the upstream.
    pub(in crate::config) upstream: String,
    /// Upstreams for server names (SNI): `"a.example" = "UPSTREAM"`, or `"*.a.example"` for all subdomains.
    /// Thruway reads the server name from the TLS handshake of the client, and forwards the connection
    /// without decrypting it. Connections without one of these names go to `upstream`. Thruway closes
    /// connections without TLS. Default: none, Thruway does not read the handshake.
    #[serde(default)]
    pub(in crate::config) server_names: BTreeMap<String, Spanned<String>>,
    /// Maximum time in which no byte passes through the connection. After this time, Thruway closes the
    /// connection. Default: 10m.
    pub(in crate::config) idle_timeout: Option<Spanned<Period>>,
}

/// The value of `proxy_protocol`: a boolean, or the networks that may send the header.
#[derive(Default)]
pub(in crate::config) enum RawProxyProtocol {
    #[default]
    No,
    Yes(RawProxies),
}

/// Networks that may send a PROXY protocol header.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawProxies {
    /// Networks that may send the header, such as `10.0.0.0/8`. Thruway closes connections from other
    /// addresses. Risk of the default: any machine that can connect to the listener can pretend to be any
    /// client. Default: all.
    pub(in crate::config) from: Option<Spanned<Vec<Spanned<String>>>>,
}

impl FromText for RawTcp {
    const EXPECTED: &'static str = "the name of an upstream or a table with an `upstream`";

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, generator.subschema_for::<Self>()]})
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self { upstream: text.to_owned(), server_names: BTreeMap::new(), idle_timeout: None })
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(table))
    }
}

impl<'de> Deserialize<'de> for RawHttp2 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = RawHttp2;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or `\"only\"`")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawHttp2, E> {
                Ok(if is_wanted { RawHttp2::Too } else { RawHttp2::No })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawHttp2, E> {
                match text {
                    "only" => Ok(RawHttp2::Only),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawHttp2 {
    fn schema_name() -> Cow<'static, str> {
        "Http2".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "boolean"}, {"const": "only"}]})
    }
}

impl<'de> Deserialize<'de> for RawProxyProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RawProxyProtocol;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true` or a table with `from`")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawProxyProtocol, E> {
                let any_proxy = RawProxyProtocol::Yes(RawProxies::default());
                Ok(if is_wanted { any_proxy } else { RawProxyProtocol::No })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawProxyProtocol, A::Error> {
                RawProxies::deserialize(MapAccessDeserializer::new(table)).map(RawProxyProtocol::Yes)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawProxyProtocol {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ProxyProtocol".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, generator.subschema_for::<RawProxies>()] })
    }
}

impl From<RawHttp2> for Http2 {
    fn from(raw: RawHttp2) -> Self {
        match raw {
            RawHttp2::No => Self::No,
            RawHttp2::Too => Self::Too,
            RawHttp2::Only => Self::Only,
        }
    }
}

pub(in crate::config) fn resolve_listeners(
    resolver: &mut Resolver<'_>,
    raw: Vec<RawListener>,
    upstreams: &Upstreams,
) -> Vec<ListenerConfig> {
    if raw.is_empty() {
        resolver.failures.push(
            Failure::new(format!("`{}` has no listener", resolver.source.path.display()))
                .with_hint("add one: `[[listeners]]` and below it `address = \"127.0.0.1:8080\"`"),
        );
    }
    let (mut listeners, mut names) = (Vec::new(), UniqueNames::of("listener"));
    for RawListener {
        name,
        address: text,
        proxy_protocol,
        http2,
        tcp,
        tls,
        redirect_to_https,
        compression,
        response_rules,
        error_pages,
    } in raw
    {
        let name = names.resolve(resolver, name);
        let is_without_http2 = http2.as_ref().is_some_and(|http2| *http2.get_ref() == RawHttp2::No);
        let http2 = http2.filter(|_| !is_without_http2);
        if let (Some(http2), Some(_)) = (&http2, &tcp) {
            resolver.refuse_with(http2, "a listener with `tcp` does not serve HTTP", TCP_HTTP2_HINT);
        }
        let http2 = match http2 {
            Some(http2) => http2.into_inner().into(),
            // With TLS, each client lists the protocols that it supports (ALPN), so the listener can accept
            // both versions.
            None if tls.is_some() && !is_without_http2 => Http2::Too,
            None => Http2::No,
        };
        let proxy_protocol = resolve_proxy_protocol(resolver, proxy_protocol);
        check_redirect_and_tls(resolver, tcp.is_some(), tls.as_ref(), redirect_to_https.as_ref());
        let compression = resolve_listener_compression(resolver, compression, tcp.is_some());
        let response_rules = resolve_listener_rules(resolver, response_rules, tcp.is_some());
        let error_pages = resolve_listener_pages(resolver, error_pages, tcp.is_some());
        let tcp = tcp.map(|tcp| resolve_tcp(resolver, tcp, upstreams));
        let has_tls = tls.is_some();
        let tls = tls.and_then(|tls| resolve_listener_tls(resolver, tls, http2, text.get_ref()));
        let redirect_to_https =
            redirect_to_https.map(|port| HttpsRedirect { span: port.span(), port: port.into_inner() });
        let answers_challenges = tcp.is_none()
            && !has_tls
            && http2 != Http2::Only
            && validates_by(resolver, ChallengeKind::Http01);
        match text.get_ref().parse().map(|address| resolve_listener(resolver, address)) {
            Ok(address) if is_listed(listeners.iter().map(ListenerConfig::address), &address) => {
                let message = format!("another listener has the address `{address}`");
                resolver.refuse_with(&text, message, LISTED_HINT);
            }
            Ok(address) => {
                listeners.push(ListenerConfig {
                    address,
                    name,
                    proxy_protocol,
                    http2,
                    tcp,
                    tls,
                    redirect_to_https,
                    compression,
                    response_rules,
                    error_pages,
                    answers_challenges,
                });
            }
            Err(error) => resolver.refuse_with(&text, error, InvalidListenAddr::HINT),
        }
    }
    listeners
}

/// Refuses `tls` of a listener that forwards TCP connections, and a redirect of a listener with `tls` or
/// `tcp`.
fn check_redirect_and_tls(
    resolver: &mut Resolver<'_>,
    is_tcp: bool,
    tls: Option<&Spanned<TextOrTable<RawListenerTlsForm>>>,
    redirect_to_https: Option<&Spanned<u16>>,
) {
    if let Some(tls) = tls.filter(|_| is_tcp) {
        let message = "a listener with `tcp` forwards connections without decryption";
        resolver.refuse_with(tls, message, TCP_TLS_HINT);
    }
    if let Some(port) = redirect_to_https.filter(|_| is_tcp || tls.is_some()) {
        let hint = "move `redirect_to_https` to a listener that has neither `tls` nor `tcp`";
        resolver.refuse_with(port, "a listener with `tls` or `tcp` cannot redirect to https", hint);
    }
}

/// Resolves the compression of a listener. `is_tcp` is `true` if the listener forwards TCP connections.
fn resolve_listener_compression(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<RawCompression>>,
    is_tcp: bool,
) -> ListenerCompression {
    if let Some(compression) = raw.as_ref().filter(|_| is_tcp) {
        let message = "a listener with `tcp` sends no HTTP responses";
        resolver.refuse_with(compression, message, "remove `compression`");
    }
    match raw {
        Some(own) => resolve_compression(resolver, own.into_inner()).into(),
        None => ListenerCompression::AsElsewhere,
    }
}

/// Resolves the response rules of a listener. `is_tcp` is `true` if the listener forwards TCP connections.
fn resolve_listener_rules(
    resolver: &mut Resolver<'_>,
    raw: Vec<Spanned<RawResponseRule>>,
    is_tcp: bool,
) -> Option<Arc<ResponseRules>> {
    if let Some(rule) = raw.first().filter(|_| is_tcp) {
        let message = "a listener with `tcp` sends no HTTP responses";
        resolver.refuse_with(rule, message, "remove `response_rules`");
    }
    // The rules of a listener apply to all paths, so they have no placeholders for parts of the path.
    resolve_response_rules(resolver, raw, RoutePaths::from(&PathMatch::Exact("/".to_owned())))
}

/// Resolves the error pages of a listener. `is_tcp` is `true` if the listener forwards TCP connections.
fn resolve_listener_pages(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<RawErrorPages>>,
    is_tcp: bool,
) -> Option<Arc<ErrorPages>> {
    if let Some(pages) = raw.as_ref().filter(|_| is_tcp) {
        let message = "a listener with `tcp` sends no HTTP responses";
        resolver.refuse_with(pages, message, "remove `error_pages`");
    }
    raw.map(|pages| resolve_error_pages(resolver, pages))
}

/// Refuses redirects to `https` if no listener serves the routes, or if all listeners redirect.
pub(in crate::config) fn check_redirects(
    resolver: &mut Resolver<'_>,
    listeners: &[ListenerConfig],
    has_routes: bool,
) {
    let Some(redirect) = listeners.iter().find_map(|listener| listener.redirect_to_https.as_ref()) else {
        return;
    };
    if listeners.iter().any(ListenerConfig::has_routes) {
        return;
    }
    let has_streams = listeners.iter().any(|listener| listener.tcp.is_some());
    let message = match (has_routes, has_streams) {
        (true, _) => "no request reaches a route, because every HTTP listener redirects to https",
        (false, false) => "no listener serves https, because every listener redirects to https",
        (false, true) => return,
    };
    resolver.failures.push(resolver.source.failure(redirect.span.clone(), message).with_hint(REDIRECT_HINT));
}

pub(in crate::config) fn resolve_listener(resolver: &Resolver<'_>, address: ListenAddr) -> ListenAddr {
    match address {
        ListenAddr::Tcp(_) => address,
        ListenAddr::Unix(path) => ListenAddr::Unix(resolver.relative_to_config(&path)),
    }
}

fn resolve_tcp(
    resolver: &mut Resolver<'_>,
    raw: Spanned<TextOrTable<RawTcp>>,
    upstreams: &Upstreams,
) -> TcpListenerConfig {
    let span = raw.span();
    let TextOrTable(RawTcp { upstream, server_names, idle_timeout }) = raw.into_inner();
    match upstreams.get(&upstream) {
        Some(config) => check_tcp(resolver, config, &span),
        None => refuse_upstream(resolver, &upstream, &span, upstreams),
    }
    let idle = resolver.or(idle_timeout, Period(TcpConfig::default().idle), SOME_PERIOD).0;
    let names = server_names
        .into_iter()
        .map(|(name, upstream)| resolve_tcp_name(resolver, name, upstream, upstreams));
    let names = names.collect();
    TcpListenerConfig { upstream, names, tcp: TcpConfig { idle, ..TcpConfig::default() } }
}

/// Checks a server name and its upstream. Returns the server name and the name of the upstream.
fn resolve_tcp_name(
    resolver: &mut Resolver<'_>,
    name: String,
    raw: Spanned<String>,
    upstreams: &Upstreams,
) -> (String, String) {
    let host = name.strip_prefix("*.").unwrap_or(&name);
    if TlsServerName::new(host).is_err() || host.parse::<IpAddr>().is_ok() {
        let message = format!("`{}` is not the name of a server", name.escape_debug());
        resolver.refuse_with(&raw, message, "write `a.example`, or `*.a.example` for all subdomains");
    }
    match upstreams.get(raw.get_ref()) {
        Some(config) => check_tcp(resolver, config, &raw.span()),
        None => refuse_upstream(resolver, raw.get_ref(), &raw.span(), upstreams),
    }
    (name, raw.into_inner())
}

/// Refuses an upstream for TCP connections if it has settings that apply only to HTTP requests: a hash of a
/// request property, TLS or sticky cookies.
fn check_tcp(resolver: &mut Resolver<'_>, upstream: &UpstreamConfig, span: &Span) {
    let name = &upstream.name;
    let by_address = [None, Some(&HashBy::ClientAddress)];
    if !by_address.contains(&upstream.balance.hash_by()) {
        let message = format!(
            "the upstream `{name}` needs HTTP requests for its hash, but this listener forwards TCP connections"
        );
        let hint = "use `balance = { hash = \"client_address\" }`, or another balancing method";
        resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(hint));
    }
    if upstream.tls.is_some() {
        let message = format!(
            "the upstream `{name}` has `tls`, but Thruway does not encrypt forwarded TCP connections"
        );
        let hint = "remove `tls`: clients use TLS with the servers directly";
        resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(hint));
    }
    if upstream.sticky.is_some() {
        let message =
            format!("the upstream `{name}` uses sticky cookies, but TCP connections have no cookies");
        let hint = "`balance = { hash = \"client_address\" }` keeps a client on one server";
        resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(hint));
    }
}

fn resolve_proxy_protocol(resolver: &mut Resolver<'_>, raw: RawProxyProtocol) -> Option<ProxyProtocol> {
    let RawProxyProtocol::Yes(RawProxies { from }) = raw else { return None };
    let Some(from) = from else { return Some(ProxyProtocol::default()) };
    resolver.refuse_empty(
        &from,
        "`from` needs at least one network",
        "remove `from` to accept all addresses",
    );
    Some(ProxyProtocol { from: resolve_networks(resolver, from.get_ref()) })
}

const REDIRECT_HINT: &str = "add a listener with `tls`, or remove `redirect_to_https`";
const TCP_HTTP2_HINT: &str = "remove `http2` or `tcp`";
const TCP_TLS_HINT: &str =
    "remove `tls`, because clients use TLS with the servers; or replace `tcp` by `[[routes]]`";
