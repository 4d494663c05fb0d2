//! The conditions of a route: hosts, paths, methods, headers, query parameters and listeners.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_gateway::{Expected, HostMatch, InvalidPattern, PathPattern, normalized_path};
use thruway_server::Method;

use crate::config::Failure;
use crate::config::listeners::RawListener;
use crate::config::resolver::{Resolver, is_path_byte, known_hint};
use crate::config::values::{Span, Spanned};

/// The hosts of a route: one host, or an array of hosts.
pub(in crate::config) enum RawHosts {
    One(String),
    List(Vec<Spanned<String>>),
}

/// The expected value of a header or query parameter.
pub(in crate::config) enum RawExpected {
    /// Any value: `true`.
    Any,
    /// This value.
    Value(String),
}

impl RawHosts {
    /// Returns the hosts as written.
    pub(in crate::config) fn iter(&self) -> impl Iterator<Item = &str> {
        let (one, list) = match self {
            Self::One(host) => (Some(host.as_str()), &[][..]),
            Self::List(hosts) => (None, &hosts[..]),
        };
        one.into_iter().chain(list.iter().map(|host| host.get_ref().as_str()))
    }
}

impl<'de> Deserialize<'de> for RawHosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HostsVisitor;
        impl<'de> Visitor<'de> for HostsVisitor {
            type Value = RawHosts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }

            fn visit_str<E: Error>(self, host: &str) -> Result<RawHosts, E> {
                Ok(RawHosts::One(host.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, hosts: A) -> Result<RawHosts, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(hosts)).map(RawHosts::List)
            }
        }
        deserializer.deserialize_any(HostsVisitor)
    }
}

impl JsonSchema for RawHosts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Hosts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json_schema!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
        json_schema!({ "anyOf": [{ "type": "string" }, list] })
    }
}

impl<'de> Deserialize<'de> for RawExpected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ExpectedVisitor;
        impl Visitor<'_> for ExpectedVisitor {
            type Value = RawExpected;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or `true` for any value")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<RawExpected, E> {
                Ok(RawExpected::Value(value.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<RawExpected, E> {
                if value { Ok(RawExpected::Any) } else { Err(E::custom("a condition cannot be `false`")) }
            }
        }
        deserializer.deserialize_any(ExpectedVisitor)
    }
}

impl JsonSchema for RawExpected {
    fn schema_name() -> Cow<'static, str> {
        "Expected".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "const": true }] })
    }
}

/// Resolves the hosts of a route. An empty result stands for any host.
pub(in crate::config) fn resolve_hosts(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<RawHosts>>,
) -> Vec<HostMatch> {
    let Some(raw) = raw else { return Vec::new() };
    let span = raw.span();
    let hosts = match raw.into_inner() {
        RawHosts::One(host) => return resolve_host(resolver, &host, &span).into_iter().collect(),
        RawHosts::List(hosts) => hosts,
    };
    if hosts.is_empty() {
        resolver.failures.push(
            resolver
                .source
                .failure(span, "`host` is an empty list")
                .with_hint("remove the key to match all hosts"),
        );
    }
    let mut found: Vec<HostMatch> = Vec::new();
    for raw in hosts {
        match resolve_host(resolver, raw.get_ref(), &raw.span()) {
            Some(host) if found.contains(&host) => {
                let message = format!("the list contains the host `{host}` twice");
                resolver.refuse_with(
                    &raw,
                    message,
                    "remove one of the two: the case and a final dot do not matter",
                );
            }
            Some(host) => found.push(host),
            None => {}
        }
    }
    found
}

fn resolve_host(resolver: &mut Resolver<'_>, host: &str, span: &Span) -> Option<HostMatch> {
    let parsed = HostMatch::parse(host).map_err(|error| resolver.source.failure(span.clone(), error));
    let refuse = |failure: Failure| {
        let hint = "write `example.com`, or `*.example.com` for all subdomains";
        resolver.failures.push(failure.with_hint(hint));
    };
    parsed.map_err(refuse).ok()
}

/// Checks the path of a route. Only a normalized path can match, because Thruway normalizes the paths of
/// requests.
pub(in crate::config) fn resolve_path(resolver: &mut Resolver<'_>, raw: Spanned<String>) -> String {
    let path = raw.get_ref();
    if !path.starts_with('/') {
        resolver.refuse(&raw, "a path begins with `/`");
    } else if path.contains(['{', '}']) {
        resolver.refuse_with(&raw, "`path` does not support parameters", "write `path_pattern = …`");
    } else if let Some(byte) = path.chars().find(|byte| !is_path_byte(*byte)) {
        refuse_byte(resolver, &raw, byte);
    } else {
        check_spelling(resolver, &raw, path);
    }
    raw.into_inner()
}

/// Checks that `path` is normalized. A path that is not normalized would match no request. `path` is `raw`,
/// or a pattern with `_` in place of `{`, `}` and `*`.
fn check_spelling(resolver: &mut Resolver<'_>, raw: &Spanned<String>, path: &str) {
    match normalized_path(path) {
        Err(error) => resolver.refuse(raw, error),
        Ok(normal) if normal == path => {}
        Ok(normal) => {
            let message = "no request can match this path, because Thruway normalizes the paths of requests";
            // If the path contains an environment variable, the hint must not show the path, because the
            // value may be private.
            let hint = if raw.get_ref() == path && !resolver.source.has_variable(&raw.span()) {
                format!("write `{normal}`")
            } else {
                "write the path without `.` and `..` segments, double slashes and unnecessary percent-encoding"
                    .to_owned()
            };
            resolver.refuse_with(raw, message, &hint);
        }
    }
}

pub(in crate::config) fn resolve_pattern(
    resolver: &mut Resolver<'_>,
    raw: &Spanned<String>,
) -> Option<PathPattern> {
    let text = raw.get_ref();
    if let Some(byte) = text.chars().find(|&byte| !is_path_byte(byte) && !matches!(byte, '{' | '}')) {
        refuse_byte(resolver, raw, byte);
        return None;
    }
    match PathPattern::parse(text) {
        Ok(pattern) => {
            check_spelling(resolver, raw, &text.replace(['{', '}', '*'], "_"));
            return Some(pattern);
        }
        Err(error @ InvalidPattern::NoParameter) => {
            resolver.refuse_with(
                raw,
                error,
                "write `path_exact`, or `path` to match all paths below it as well",
            );
        }
        Err(error) => resolver.refuse(raw, error),
    }
    None
}

fn refuse_byte(resolver: &mut Resolver<'_>, raw: &Spanned<String>, byte: char) {
    let message = format!("a path cannot contain `{}`", byte.escape_debug());
    resolver.refuse_with(raw, message, "write the path as clients send it: percent-encoded, without a query");
}

pub(in crate::config) fn resolve_methods(
    resolver: &mut Resolver<'_>,
    raw: Spanned<Vec<Spanned<String>>>,
) -> Vec<String> {
    if raw.get_ref().is_empty() {
        resolver.refuse_with(&raw, "`methods` is empty", "remove the key to allow all methods");
    }
    for method in raw.get_ref() {
        resolve_method(resolver, method);
    }
    raw.into_inner().into_iter().map(Spanned::into_inner).collect()
}

fn resolve_method(resolver: &mut Resolver<'_>, raw: &Spanned<String>) {
    let name = raw.get_ref();
    let capitals = name.to_ascii_uppercase();
    match (Method::from_token(name.as_bytes()), Method::from_token(capitals.as_bytes())) {
        (Ok(Method::Connect), _) => {
            resolver.refuse_with(raw, "this route cannot handle CONNECT", "use a route with `connect`");
        }
        (Ok(Method::Other(_)), Ok(meant)) if meant.registered().is_some() => {
            resolver.refuse_with(
                raw,
                format!("unknown method `{name}`"),
                &format!("did you mean `{capitals}`?"),
            );
        }
        (Ok(_), _) => {}
        (Err(error), _) => resolver.refuse(raw, error),
    }
}

pub(in crate::config) fn expected(raw: BTreeMap<Spanned<String>, Spanned<RawExpected>>) -> Vec<Expected> {
    let expected = |(name, value): (Spanned<String>, Spanned<RawExpected>)| {
        let value = match value.into_inner() {
            RawExpected::Any => None,
            RawExpected::Value(value) => Some(value),
        };
        Expected { name: name.into_inner(), value }
    };
    raw.into_iter().map(expected).collect()
}

/// A listener with a name, to which routes can refer.
pub(in crate::config) struct NamedListener {
    name: String,
    /// `true` if the routes handle the requests of this listener.
    has_routes: bool,
}

impl NamedListener {
    /// Returns the listeners with a name, even if some of their other keys are invalid.
    pub(in crate::config) fn all(raw: &[RawListener]) -> Vec<Self> {
        let named = |raw: &RawListener| {
            let has_routes = raw.tcp.is_none() && raw.redirect_to_https.is_none();
            Some(Self { name: raw.name.as_ref()?.get_ref().clone(), has_routes })
        };
        raw.iter().filter_map(named).collect()
    }
}

/// Resolves the names of the listeners whose requests match a route. An empty result stands for all listeners.
pub(in crate::config) fn resolve_route_listeners(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Vec<Spanned<String>>>>,
    known: &[NamedListener],
) -> Vec<String> {
    let Some(raw) = raw else { return Vec::new() };
    resolver.refuse_empty(
        &raw,
        "`listeners` is an empty list",
        "remove the key to match the requests of all listeners",
    );
    let mut names: Vec<String> = Vec::new();
    for raw in raw.into_inner() {
        let name = raw.get_ref();
        match known.iter().find(|listener| listener.name == *name) {
            None => {
                let hint = known_hint(name, known.iter().map(|listener| &listener.name), NO_NAME_HINT);
                let message = format!("no listener has the name `{}`", name.escape_debug());
                resolver.refuse_with(&raw, message, &hint);
            }
            Some(listener) if !listener.has_routes => {
                let message = format!("the listener `{name}` serves no routes");
                let hint = "name a listener that has neither `tcp` nor `redirect_to_https`";
                resolver.refuse_with(&raw, message, hint);
            }
            Some(_) if names.contains(name) => {
                let message = format!("the list contains the listener `{name}` twice");
                resolver.refuse_with(&raw, message, "remove one of the two");
            }
            Some(_) => names.push(raw.into_inner()),
        }
    }
    names
}

const NO_NAME_HINT: &str = "give the listener this name: `name = …` in `[[listeners]]`";
