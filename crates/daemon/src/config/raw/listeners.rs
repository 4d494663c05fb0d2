//! Listeners as the file says them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::spanned::Spanned;
use super::{FromText, Period, RawCompression, RawListenerTls, TextOrTable};

/// Where to listen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawListener {
    /// `IP:PORT` or `unix:PATH`.
    pub(in super::super) address: Spanned<String>,
    /// Whether connections begin with a header of the PROXY protocol (version 1 or 2), which says who the client is: `true`, or
    /// `{ from = ["NETWORK"] }`. Default no.
    #[serde(default)]
    pub(in super::super) proxy_protocol: RawProxyProtocol,
    /// Whether HTTP/2 is spoken: `true`, or `"only"`, where nothing else is. With `tls` clients negotiate it; without, they must know it
    /// beforehand, and the first octets of a connection tell. Default with `tls` `true`, else `false`.
    pub(in super::super) http2: Option<Spanned<RawHttp2>>,
    /// The name of an upstream that connections are forwarded to, whatever they carry: a name, or a table. Default none, for HTTP.
    pub(in super::super) tcp: Option<Spanned<TextOrTable<RawTcp>>>,
    /// How TLS is spoken with clients. Default not.
    pub(in super::super) tls: Option<Spanned<RawListenerTls>>,
    /// The port of a listener with TLS to which all requests are redirected, at the host that they name. Default none.
    pub(in super::super) redirect_to_https: Option<Spanned<u16>>,
    /// How responses are compressed here on routes that do not say it themselves: `true`, `false`, or a table. Default as the whole server says it.
    pub(in super::super) compression: Option<Spanned<RawCompression>>,
}

/// Whether HTTP/2 is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum RawHttp2 {
    No,
    Too,
    Only,
}

/// Where connections are forwarded to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawTcp {
    /// The name of an upstream.
    pub(in super::super) upstream: String,
    /// Other upstreams, for streams of TLS whose clients ask for these servers: `"a.example" = "UPSTREAM"`, or `"*.a.example"` for all below it. Nothing
    /// is decrypted; what is no TLS is closed. Default none: nobody is asked.
    #[serde(default)]
    pub(in super::super) server_names: BTreeMap<String, Spanned<String>>,
    /// Without an octet in either direction; then the connection is closed. Default 10m.
    pub(in super::super) idle_timeout: Option<Spanned<Period>>,
}

/// Whether connections begin with a header, and from where that is believed.
#[derive(Default)]
pub(in super::super) enum RawProxyProtocol {
    #[default]
    No,
    Yes(RawProxies),
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawProxies {
    /// Networks, as `10.0.0.0/8`; connections from others are closed. Default all.
    pub(in super::super) from: Option<Spanned<Vec<Spanned<String>>>>,
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
                let everybody = RawProxyProtocol::Yes(RawProxies::default());
                Ok(if is_wanted { everybody } else { RawProxyProtocol::No })
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
