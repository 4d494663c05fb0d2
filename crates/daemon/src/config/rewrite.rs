//! The table `rewrite` of routes, and the keys `host` and `forwarded` of upstreams.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess};
use thruway_gateway::{
    FieldRewrite, HostRewrite, InvalidRewrite, PathRewrite, Rewrite, RoutePaths, RouteRegex,
};
use thruway_server::Authority;

use crate::config::resolver::Resolver;
use crate::config::values::{FromText, Spanned, TextOrTable};

/// Changes to forwarded requests and their responses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawRewrite {
    /// Path of the forwarded request. `{path}` is the original path of the client's request: without the
    /// query, percent-encoded and not normalized. `{rest}` is the part of this path after the `path` of the
    /// route. `{NAME}` is a parameter of `path_pattern`, or a group of `path_regex`: `{1}` or `{NAME}`.
    /// Default: the path of the client's request.
    pub(in crate::config) path: Option<Spanned<String>>,
    /// With `true`, Thruway changes the path in the response header `Location` back to the path that clients
    /// use. The key has an effect only if `path` replaces a prefix of the path. Default: true.
    pub(in crate::config) location: Option<bool>,
    /// Changes to headers of requests.
    #[serde(default)]
    pub(in crate::config) request: RawFieldRewrite,
    /// Changes to headers of responses.
    #[serde(default)]
    pub(in crate::config) response: RawFieldRewrite,
}

/// Changes to headers: Thruway removes, sets and adds headers, in this order. Values can contain `{client}`,
/// `{host}`, `{path}`, `{query}`, `{request_id}`, `{scheme}`, `{rest}`, `{tls_client_subject}`,
/// `{tls_client_names}`, `{tls_client_fingerprint}`, `{tls_server_name}`, `{tls_version}`, the parameters of
/// `path_pattern` and the groups of `path_regex`. Write braces as `{{` and `}}`. `{client}` is the IP address
/// of the client without a port, and `{host}` the host without a port. `{path}` is the original path: without
/// the query, percent-encoded and not normalized. `{tls_client_names}` shows each name with its type, and
/// percent-encodes commas within names: `DNS:ada.example,URI:spiffe://example/ada`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawFieldRewrite {
    /// Headers to set: `{ NAME = "value" }`. The new value replaces all previous values of the header. As for
    /// `remove`, `_` and `-` in names are equal. Default: none.
    #[serde(default)]
    pub(in crate::config) set: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Headers to add: `{ NAME = "value" }`. Thruway keeps the previous values of the header. Default: none.
    #[serde(default)]
    pub(in crate::config) add: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Names of headers to remove. Thruway treats `_` and `-` in names as equal: `X-User` also removes
    /// `X_User`. From requests, Thruway also removes trailers with these names. Default: none.
    #[serde(default)]
    pub(in crate::config) remove: Vec<Spanned<String>>,
}

/// `Host` of forwarded requests: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::config) enum RawHost {
    Named(RawHostName),
    Fixed(RawFixedHost),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawHostName {
    /// The host of the client's request.
    Preserve,
    /// The name of the server in the config.
    Server,
}

/// A fixed `Host`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawFixedHost {
    /// Host name or address, with or without a port.
    pub(in crate::config) fixed: Spanned<String>,
}

/// Headers that describe the client to the servers.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::config) enum RawForwarded {
    XForwarded,
    Forwarded,
    Both,
    None,
}

impl FromText for RawHost {
    const EXPECTED: &'static str = "a name or a table with `fixed`";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        RawHostName::deserialize(text.into_deserializer()).map(Self::Named)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawFixedHost::deserialize(MapAccessDeserializer::new(table)).map(Self::Fixed)
    }
}

pub(in crate::config) fn resolve_host_rewrite(
    resolver: &mut Resolver<'_>,
    raw: &Spanned<TextOrTable<RawHost>>,
) -> HostRewrite {
    match &raw.get_ref().0 {
        RawHost::Named(RawHostName::Preserve) => HostRewrite::Preserve,
        RawHost::Named(RawHostName::Server) => HostRewrite::Server,
        RawHost::Fixed(host) => {
            let text = host.fixed.get_ref();
            if text.is_empty() || Authority::parse(text.as_bytes()).is_err() {
                resolver.refuse_with(
                    &host.fixed,
                    "invalid host",
                    "write `example.com` or `example.com:8080`",
                );
                return HostRewrite::Preserve;
            }
            HostRewrite::Fixed(text.clone())
        }
    }
}

/// Resolves the table `rewrite` of a route with these paths.
pub(in crate::config) fn resolve_rewrite(
    resolver: &mut Resolver<'_>,
    raw: RawRewrite,
    paths: RoutePaths<'_>,
) -> Rewrite {
    let path = raw.path.and_then(|path| {
        let rewrite = PathRewrite::new(path.get_ref(), paths);
        let places = places_hint(PATH_PLACES, paths);
        rewrite.map_err(|error| refuse_rewrite(resolver, &path, error, &places)).ok()
    });
    Rewrite {
        path,
        request: resolve_field_rewrite(resolver, &raw.request, paths),
        response: resolve_field_rewrite(resolver, &raw.response, paths),
        keeps_location: !raw.location.unwrap_or(true),
    }
}

pub(in crate::config) fn resolve_field_rewrite(
    resolver: &mut Resolver<'_>,
    raw: &RawFieldRewrite,
    paths: RoutePaths<'_>,
) -> FieldRewrite {
    let mut fields = FieldRewrite::default();
    let places = places_hint(VALUE_PLACES, paths);
    for name in &raw.remove {
        if let Err(error) = fields.remove(name.get_ref()) {
            refuse_rewrite(resolver, name, error, VALUE_PLACES);
        }
    }
    for (name, value) in &raw.set {
        let set = fields.set(name.get_ref(), value.get_ref(), paths);
        check_field(resolver, name, value, set, &places);
    }
    for (name, value) in &raw.add {
        let added = fields.add(name.get_ref(), value.get_ref(), paths);
        check_field(resolver, name, value, added, &places);
    }
    fields
}

fn check_field(
    resolver: &mut Resolver<'_>,
    name: &Spanned<String>,
    value: &Spanned<String>,
    outcome: Result<(), InvalidRewrite>,
    places: &str,
) {
    match outcome {
        Ok(()) => {}
        Err(error @ (InvalidRewrite::FieldName | InvalidRewrite::FieldOfGateway)) => {
            refuse_rewrite(resolver, name, error, places);
        }
        Err(error) => refuse_rewrite(resolver, value, error, places),
    }
}

pub(in crate::config) fn refuse_rewrite(
    resolver: &mut Resolver<'_>,
    at: &Spanned<String>,
    error: InvalidRewrite,
    places: &str,
) {
    match error {
        InvalidRewrite::Placeholder => resolver.refuse_with(at, error, places),
        InvalidRewrite::Slash => resolver.refuse_with(at, error, "write `/v2{rest}`"),
        InvalidRewrite::FieldOfGateway => {
            let name = at.get_ref().to_ascii_lowercase().replace('_', "-");
            let hint = match name.as_str() {
                "date" | "server" => {
                    "the header of the upstream server passes through, and Thruway writes this header if it is absent: remove this rule"
                }
                "forwarded" | "host" | "via" => OWN_FIELD_HINT,
                name if name.starts_with("x-forwarded-") => OWN_FIELD_HINT,
                _ => "Thruway writes this header for each connection or message: remove this rule",
            };
            resolver.refuse_with(at, error, hint);
        }
        error => resolver.refuse(at, error),
    }
}

/// Returns a hint with the placeholders for the groups of a route's regular expression, if it has groups.
pub(in crate::config) fn groups_hint(paths: RoutePaths<'_>) -> Option<String> {
    let names = paths.regex.map(RouteRegex::group_names).filter(|names| !names.is_empty())?;
    let names: Vec<_> = names.iter().map(|name| format!("`{{{name}}}`")).collect();
    Some(format!("groups of `path_regex`: {}", names.join(", ")))
}

/// Returns `places` and the placeholders for groups.
fn places_hint(places: &str, paths: RoutePaths<'_>) -> String {
    groups_hint(paths).map_or_else(|| places.to_owned(), |groups| format!("{places}; {groups}"))
}

const PATH_PLACES: &str = "possible placeholders: `{path}`; routes with `path` can also use `{rest}`; routes with `path_pattern` can also use its parameters";
const VALUE_PLACES: &str = "possible: `{client}`, `{host}`, `{path}`, `{query}`, `{request_id}`, `{scheme}`, `{tls_client_subject}`, `{tls_client_names}`, `{tls_client_fingerprint}`, `{tls_server_name}`, `{tls_version}`, with `path` also `{rest}`, and with \
                            `path_pattern` also the parameters of the pattern; write a brace as `{{` or `}}`";
const OWN_FIELD_HINT: &str = "use the keys of the upstream for these headers: `host`, `forwarded`, `via`";
