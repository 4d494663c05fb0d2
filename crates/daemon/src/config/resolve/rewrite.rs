//! What is changed on the way.

use std::collections::BTreeMap;

use thruway_gateway::{
    FieldRewrite, ForwardConfig, ForwardedFields, HostRewrite, InvalidRewrite, PathMatch, PathRewrite,
    Rewrite,
};
use thruway_server::Authority;

use crate::config::raw::{
    RawFieldRewrite, RawForwarded, RawHost, RawHostName, RawRewrite, RawUpstream, TextOrTable,
};
use crate::config::resolver::Resolver;
use crate::config::spanned::Spanned;

/// What requests to each upstream say of their way.
pub(super) fn resolve_forwards(
    resolver: &mut Resolver<'_>,
    upstreams: &BTreeMap<String, Spanned<RawUpstream>>,
) -> BTreeMap<String, ForwardConfig> {
    upstreams
        .iter()
        .map(|(name, raw)| (name.clone(), resolve_forward_config(resolver, raw.get_ref())))
        .collect()
}

fn resolve_forward_config(resolver: &mut Resolver<'_>, raw: &RawUpstream) -> ForwardConfig {
    let default = ForwardConfig::default();
    let forwarded_port = raw.forwarded_port.as_ref().filter(|is_said| *is_said.get_ref());
    if let Some(port) = forwarded_port
        && matches!(raw.forwarded, Some(RawForwarded::Forwarded | RawForwarded::None))
    {
        let hint = "write `forwarded = \"x-forwarded\"` or `\"both\"`, or leave it out";
        resolver.refuse_with(
            port,
            "`X-Forwarded-Port` is said beside the other `X-Forwarded` fields only",
            hint,
        );
    }
    ForwardConfig {
        forwarded: raw.forwarded.map_or(default.forwarded, |fields| match fields {
            RawForwarded::XForwarded => ForwardedFields::XForwarded,
            RawForwarded::Forwarded => ForwardedFields::Forwarded,
            RawForwarded::Both => ForwardedFields::Both,
            RawForwarded::None => ForwardedFields::None,
        }),
        forwarded_port: forwarded_port.is_some(),
        host: raw.host.as_ref().map_or(default.host, |host| resolve_host_rewrite(resolver, host)),
        via: raw.via.unwrap_or(default.via),
        ..default
    }
}

fn resolve_host_rewrite(resolver: &mut Resolver<'_>, raw: &Spanned<TextOrTable<RawHost>>) -> HostRewrite {
    match &raw.get_ref().0 {
        RawHost::Named(RawHostName::Preserve) => HostRewrite::Preserve,
        RawHost::Named(RawHostName::Server) => HostRewrite::Server,
        RawHost::Fixed(host) => {
            let text = host.fixed.get_ref();
            if text.is_empty() || Authority::parse(text.as_bytes()).is_err() {
                resolver.refuse_with(
                    &host.fixed,
                    "this is no host",
                    "write `example.com` or `example.com:8080`",
                );
                return HostRewrite::Preserve;
            }
            HostRewrite::Fixed(text.clone())
        }
    }
}

/// What `raw` changes in a route for `paths`.
pub(super) fn resolve_rewrite(resolver: &mut Resolver<'_>, raw: RawRewrite, paths: &PathMatch) -> Rewrite {
    let path = raw.path.and_then(|path| {
        let rewrite = PathRewrite::new(path.get_ref(), paths);
        rewrite.map_err(|error| refuse_rewrite(resolver, &path, error, PATH_PLACES)).ok()
    });
    Rewrite {
        path,
        request: resolve_field_rewrite(resolver, &raw.request, paths),
        response: resolve_field_rewrite(resolver, &raw.response, paths),
        keeps_location: !raw.location.unwrap_or(true),
    }
}

fn resolve_field_rewrite(
    resolver: &mut Resolver<'_>,
    raw: &RawFieldRewrite,
    paths: &PathMatch,
) -> FieldRewrite {
    let mut fields = FieldRewrite::default();
    for name in &raw.remove {
        if let Err(error) = fields.remove(name.get_ref()) {
            refuse_rewrite(resolver, name, error, VALUE_PLACES);
        }
    }
    for (name, value) in &raw.set {
        let set = fields.set(name.get_ref(), value.get_ref(), paths);
        check_field(resolver, name, value, set);
    }
    for (name, value) in &raw.add {
        let added = fields.add(name.get_ref(), value.get_ref(), paths);
        check_field(resolver, name, value, added);
    }
    fields
}

fn check_field(
    resolver: &mut Resolver<'_>,
    name: &Spanned<String>,
    value: &Spanned<String>,
    outcome: Result<(), InvalidRewrite>,
) {
    match outcome {
        Ok(()) => {}
        Err(error @ (InvalidRewrite::FieldName | InvalidRewrite::FieldOfGateway)) => {
            refuse_rewrite(resolver, name, error, VALUE_PLACES);
        }
        Err(error) => refuse_rewrite(resolver, value, error, VALUE_PLACES),
    }
}

pub(super) fn refuse_rewrite(
    resolver: &mut Resolver<'_>,
    at: &Spanned<String>,
    error: InvalidRewrite,
    places: &str,
) {
    match error {
        InvalidRewrite::Place => resolver.refuse_with(at, error, places),
        InvalidRewrite::Slash => resolver.refuse_with(at, error, "write `/v2{rest}`"),
        InvalidRewrite::FieldOfGateway => resolver.refuse_with(at, error, OWN_FIELD_HINT),
        error => resolver.refuse(at, error),
    }
}

const PATH_PLACES: &str =
    "possible: `{path}`, with `path` also `{rest}`, and with `path_pattern` the names that stand there";
const VALUE_PLACES: &str = "possible: `{client}`, `{host}`, `{path}`, `{query}`, `{request_id}`, `{scheme}`, `{tls_client_subject}`, `{tls_client_names}`, `{tls_client_fingerprint}`, `{tls_server_name}`, `{tls_version}`, with `path` also `{rest}`, and with \
                            `path_pattern` the names that stand there; a brace is `{{` or `}}`";
const OWN_FIELD_HINT: &str =
    "what is said of the client and the way has keys of the upstream: `host`, `forwarded`, `via`";
