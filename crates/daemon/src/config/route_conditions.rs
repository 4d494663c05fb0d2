//! The conditions of a route: hosts, paths, methods, headers, query parameters and listeners.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_gateway::{
    Expected, ExpectedValue, HostMatch, InvalidPattern, NegatedConditions, PathPattern, RouteRegex,
    SpecialConditions, normalized_path,
};
use thruway_server::{FieldName, Method};

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
    /// A value that a regular expression matches.
    Regex(RawRegex),
}

/// A regular expression for the value of a header or query parameter.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawRegex {
    /// Regular expression. It matches if any part of the value matches: `^` and `$` stand for the start and
    /// the end. The syntax is that of the Rust crate `regex`, without Unicode classes: `\d`, `\w` and `(?i)`
    /// apply to ASCII. Maximum size of the compiled expression: 1 MiB.
    pub(in crate::config) regex: Spanned<String>,
}

/// Conditions that a request must not meet. If a request meets one of them, the route does not match.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawNegated {
    /// Regular expression that the path must not match, written as `path_regex` of the route. Default: none.
    pub(in crate::config) path_regex: Option<Spanned<String>>,
    /// Extensions that the path must not have, written as `extensions` of the route. Default: none.
    pub(in crate::config) extensions: Option<Spanned<Vec<Spanned<String>>>>,
    /// Headers that the request must not have, written as `headers` of the route. Default: none.
    #[serde(default)]
    pub(in crate::config) headers: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
    /// Query parameters that the request must not have, written as `query` of the route. Default: none.
    #[serde(default)]
    pub(in crate::config) query: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
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
        impl<'de> Visitor<'de> for ExpectedVisitor {
            type Value = RawExpected;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, `true` for any value, or a table with `regex`")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<RawExpected, E> {
                Ok(RawExpected::Value(value.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<RawExpected, E> {
                if value {
                    Ok(RawExpected::Any)
                } else {
                    Err(E::custom("a condition cannot be `false`: write it in `[routes.not]`"))
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawExpected, A::Error> {
                RawRegex::deserialize(MapAccessDeserializer::new(table)).map(RawExpected::Regex)
            }
        }
        deserializer.deserialize_any(ExpectedVisitor)
    }
}

impl JsonSchema for RawExpected {
    fn schema_name() -> Cow<'static, str> {
        "Expected".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let regex = generator.subschema_for::<RawRegex>();
        json_schema!({ "anyOf": [{ "type": "string" }, { "const": true }, regex] })
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

/// Resolves conditions for headers. Refuses invalid names.
pub(in crate::config) fn resolve_headers(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
) -> Vec<Expected> {
    for name in raw.keys() {
        if let Err(error) = FieldName::new(name.get_ref().as_bytes()) {
            resolver.refuse(name, error);
        }
    }
    resolve_expected(resolver, raw)
}

/// Resolves conditions for headers or query parameters.
pub(in crate::config) fn resolve_expected(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<RawExpected>>,
) -> Vec<Expected> {
    let expected = |(name, value): (Spanned<String>, Spanned<RawExpected>)| {
        let value = match value.into_inner() {
            RawExpected::Any => ExpectedValue::Any,
            RawExpected::Value(value) => ExpectedValue::Text(value),
            RawExpected::Regex(raw) => ExpectedValue::Regex(resolve_regex(resolver, &raw.regex)?),
        };
        Some(Expected { name: name.into_inner(), value })
    };
    raw.into_iter().filter_map(expected).collect()
}

/// Compiles a regular expression. Refuses an invalid one.
pub(in crate::config) fn resolve_regex(
    resolver: &mut Resolver<'_>,
    raw: &Spanned<String>,
) -> Option<RouteRegex> {
    RouteRegex::parse(raw.get_ref()).map_err(|error| resolver.refuse_with(raw, error, REGEX_HINT)).ok()
}

const REGEX_HINT: &str = "write the expression in single quotes: `'^/users/([0-9]+)$'`; look-around and back references are not supported";

/// Resolves the conditions that few routes have. Returns `None` if there are none.
pub(in crate::config) fn resolve_special(
    resolver: &mut Resolver<'_>,
    path_regex: Option<&Spanned<String>>,
    extensions: Option<Spanned<Vec<Spanned<String>>>>,
    not: Option<Spanned<RawNegated>>,
) -> Option<Box<SpecialConditions>> {
    if path_regex.is_none() && extensions.is_none() && not.is_none() {
        return None;
    }
    let path_regex = path_regex.and_then(|raw| resolve_regex(resolver, raw));
    let extensions = resolve_extensions(resolver, extensions);
    let negated = not.map(|not| resolve_negated(resolver, not)).unwrap_or_default();
    Some(Box::new(SpecialConditions { path_regex, extensions, negated }))
}

fn resolve_negated(resolver: &mut Resolver<'_>, raw: Spanned<RawNegated>) -> NegatedConditions {
    let span = raw.span();
    let RawNegated { path_regex, extensions, headers, query } = raw.into_inner();
    if path_regex.is_none() && extensions.is_none() && headers.is_empty() && query.is_empty() {
        let failure = resolver.source.failure(span, "`not` has no condition");
        resolver.failures.push(failure.with_hint("add `path_regex`, `extensions`, `headers` or `query`"));
    }
    NegatedConditions {
        path_regex: path_regex.and_then(|raw| resolve_regex(resolver, &raw)),
        extensions: resolve_extensions(resolver, extensions),
        headers: resolve_headers(resolver, headers),
        query: resolve_expected(resolver, query),
    }
}

/// Resolves a list of file extensions.
fn resolve_extensions(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Vec<Spanned<String>>>>,
) -> Vec<String> {
    let Some(raw) = raw else { return Vec::new() };
    resolver.refuse_empty(&raw, "`extensions` is an empty list", "remove the key to match all paths");
    for extension in raw.get_ref() {
        let text = extension.get_ref();
        let bare = text.trim_start_matches(['*', '.']);
        if bare != text && !bare.is_empty() {
            let hint = format!("write `{}`", bare.escape_debug());
            resolver.refuse_with(extension, "an extension is the text after the last dot", &hint);
        } else if text.is_empty() || !text.chars().all(is_unreserved) || text.contains('.') {
            let hint = "write an extension such as `php`, without a dot";
            resolver.refuse_with(extension, "an extension has letters, digits, `-`, `_` and `~` only", hint);
        }
    }
    raw.into_inner().into_iter().map(Spanned::into_inner).collect()
}

/// Returns `true` for the characters that a normalized path contains without percent-encoding (RFC 3986
/// §2.3).
const fn is_unreserved(character: char) -> bool {
    matches!(character, 'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~')
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

/// Resolves the names of the listeners whose requests match a route. An empty result stands for all
/// listeners.
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
