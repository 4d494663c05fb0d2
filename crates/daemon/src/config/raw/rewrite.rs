//! What is changed on the way, as the file says it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess};

use super::super::spanned::Spanned;
use super::FromText;

/// What is changed in requests and responses of a route that forwards.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawRewrite {
    /// The path that is asked for: `{rest}` is what comes after `path`, `{path}` all of it, `{NAME}` what `path_pattern` calls so.
    pub(in super::super) path: Option<Spanned<String>>,
    /// Whether paths in `Location` are changed back, where only the prefix of the path was. Default true.
    pub(in super::super) location: Option<bool>,
    /// Fields of requests.
    #[serde(default)]
    pub(in super::super) request: RawFieldRewrite,
    /// Fields of responses.
    #[serde(default)]
    pub(in super::super) response: RawFieldRewrite,
}

/// Fields that are removed, set and added, in this order. Values may have places: `{client}`, `{host}`, `{path}`, `{query}`,
/// `{request_id}`, `{scheme}`, `{rest}`, `{tls_client_subject}`, `{tls_client_names}`, `{tls_client_fingerprint}`, `{tls_server_name}`, `{tls_version}` and what
/// `path_pattern` names; `{{` and `}}` are braces. `{tls_client_names}` shows each name with its type, and
/// percent-encodes commas within names: `DNS:ada.example,URI:spiffe://example/ada`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawFieldRewrite {
    /// `{ NAME = "value" }`: this value and no other.
    #[serde(default)]
    pub(in super::super) set: BTreeMap<Spanned<String>, Spanned<String>>,
    /// `{ NAME = "value" }`: one more line.
    #[serde(default)]
    pub(in super::super) add: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Names.
    #[serde(default)]
    pub(in super::super) remove: Vec<Spanned<String>>,
}

/// What `Host` says to servers: a name, or a table.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in super::super) enum RawHost {
    Named(RawHostName),
    Fixed(RawFixedHost),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum RawHostName {
    /// What the client said.
    Preserve,
    /// What the config calls the server.
    Server,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawFixedHost {
    /// A name or an address, with a port or without.
    pub(in super::super) fixed: Spanned<String>,
}

/// Which fields tell servers about the client.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum RawForwarded {
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
