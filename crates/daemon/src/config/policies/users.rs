//! The policies `basic_auth` and `api_keys`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{ApiKeysConfig, BasicAuthConfig, InvalidLine, KeyPlace, is_user_name, lines_of};

use crate::config::policies::headers::{
    resolve_own_field, resolve_realm, resolve_text_of_file, resolve_user_field,
};
use crate::config::resolver::Resolver;
use crate::config::values::{Span, Spanned};

/// Users with a password (HTTP Basic).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawBasicAuth {
    /// Realm that browsers show. Default: the name of the policy.
    pub(in crate::config) realm: Option<Spanned<String>>,
    /// User names, each with the hash of the password: bcrypt, Argon2, or `$apr1$`. Thruway hides the hashes in
    /// error messages. Risk: `$apr1$` is weak. Default: none.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) users: BTreeMap<Spanned<String>, Spanned<String>>,
    /// File with lines `NAME:HASH`, in the format of `htpasswd`. A relative path starts at the directory of the
    /// config. Default: none.
    pub(in crate::config) users_file: Option<Spanned<PathBuf>>,
    /// Header in which Thruway sends the user name to the upstream. On routes with this policy, Thruway
    /// removes a header with this name from client requests. Default: none.
    pub(in crate::config) user_header: Option<Spanned<String>>,
}

/// API keys.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawApiKeys {
    /// Header that contains the API key. Default: `X-Api-Key`, if neither `bearer` nor `query` is set.
    pub(in crate::config) header: Option<Spanned<String>>,
    /// Query parameter that contains the API key. Risk: the API key appears in the logs of upstream servers
    /// and mirrors, and in `Referer`. Default: none.
    pub(in crate::config) query: Option<String>,
    /// `true` reads the API key from `Authorization: Bearer`. Default: false.
    #[serde(default)]
    pub(in crate::config) bearer: bool,
    /// API keys: for each name, the digest of the key, as `sha256:` and 64 hexadecimal digits. Thruway hides
    /// the digests in error messages. Risk: an attacker who knows the digest can guess a key that is not
    /// random. Default: none.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) keys: BTreeMap<Spanned<String>, Spanned<String>>,
    /// File with lines `NAME:sha256:DIGEST`. A relative path starts at the directory of the config. Default:
    /// none.
    pub(in crate::config) keys_file: Option<Spanned<PathBuf>>,
    /// Header in which Thruway sends the name of the key to the upstream. On routes with this policy, Thruway
    /// removes a header with this name from client requests. Default: none.
    pub(in crate::config) user_header: Option<Spanned<String>>,
}

pub(in crate::config) fn resolve_basic_auth(
    resolver: &mut Resolver<'_>,
    raw: RawBasicAuth,
    span: &Span,
) -> Option<BasicAuthConfig> {
    let RawBasicAuth { realm, users, users_file, user_header } = raw;
    let (realm, user_field) = (resolve_realm(resolver, realm), resolve_user_field(resolver, user_header));
    let users = resolve_names(resolver, users, users_file, "htpasswd -nBC 10 NAME` prints `NAME:HASH`")?;
    if users.is_empty() {
        resolver.refuse_at(span, "there are no users: set `users` or `users_file`");
        return None;
    }
    let mut known = HashSet::new();
    if let Some((name, _)) = users.iter().find(|(name, _)| !known.insert(name)) {
        resolver.refuse_at(span, format!("the user `{}` is listed twice", name.escape_debug()));
    }
    Some(BasicAuthConfig { realm, users, user_field })
}

pub(in crate::config) fn resolve_api_keys(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawApiKeys>,
) -> Option<ApiKeysConfig> {
    let span = raw.span();
    let RawApiKeys { header, query, bearer, keys, keys_file, user_header } = raw.into_inner();
    let place = match (header, query, bearer) {
        (None, None, true) => KeyPlace::Bearer,
        (None, Some(name), false) if name.is_empty() => {
            resolver.refuse_at(&span, "the query parameter needs a name");
            return None;
        }
        (None, Some(name), false) => KeyPlace::Query(name),
        (None, None, false) => KeyPlace::Header("X-Api-Key".to_owned()),
        (Some(name), None, false) => KeyPlace::Header(resolve_own_field(resolver, Some(name))?),
        _ => {
            resolver.refuse_at(&span, "`api_keys` needs exactly one of `header`, `query` and `bearer`");
            return None;
        }
    };
    let user_field = resolve_user_field(resolver, user_header);
    let keys = resolve_names(resolver, keys, keys_file, "printf %s KEY | sha256sum` prints the digits")?;
    if keys.is_empty() {
        resolver.refuse_at(&span, "there are no keys: set `keys` or `keys_file`");
        return None;
    }
    let mut known = HashMap::new();
    for (name, key) in &keys {
        if let Some(other) = known.insert(key, name).filter(|other| *other != name) {
            let names = [other, name].map(|name| name.escape_debug());
            resolver.refuse_at(&span, format!("`{}` and `{}` have the same key", names[0], names[1]));
        }
    }
    Some(ApiKeysConfig { place, keys, user_field })
}

/// Returns names with their password hashes or key digests, from the config and from a file. `command` is a
/// shell command that prints a valid hash or digest. The hint of an error begins with it.
fn resolve_names<T: FromStr<Err: fmt::Display>>(
    resolver: &mut Resolver<'_>,
    raw: BTreeMap<Spanned<String>, Spanned<String>>,
    file: Option<Spanned<PathBuf>>,
    command: &str,
) -> Option<Vec<(String, T)>> {
    let before = resolver.failures.len();
    let mut all = Vec::new();
    for (name, value) in raw {
        if !is_user_name(name.get_ref()) {
            resolver.refuse(&name, "this is not a valid name: names become header values");
        }
        match value.get_ref().parse() {
            Ok(value) => all.push((name.into_inner(), value)),
            Err(error) => resolver.refuse_with(&value, error, &format!("`{command}")),
        }
    }
    if let Some(path) = file {
        let text = resolve_text_of_file(resolver, &path)?;
        match lines_of(&text, T::from_str) {
            Ok(lines) => all.extend(lines),
            Err(InvalidLine { line, error: Some(error) }) => {
                let file = resolver.relative_to_config(path.get_ref());
                let message = format!("line {line} of `{}`: {error}", file.display());
                resolver.refuse_with(&path, message, &format!("`{command}"));
            }
            Err(InvalidLine { line, error: None }) => {
                let file = resolver.relative_to_config(path.get_ref());
                let message = format!("line {line} of `{}` is not `NAME:VALUE`", file.display());
                resolver.refuse_with(&path, message, &format!("`{command}"));
            }
        }
    }
    (resolver.failures.len() == before).then_some(all)
}
