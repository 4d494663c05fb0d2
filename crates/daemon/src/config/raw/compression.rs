//! What is compressed, as the file says it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::spanned::Spanned;

/// Whether responses are compressed: `true`, `false`, or a table of how.
pub(in super::super) enum RawCompression {
    No,
    Yes(Box<RawCompressed>),
}

/// How responses are compressed.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawCompressed {
    /// `zstd`, `br` and `gzip`: of those that a client likes best, the first is used. Default all, in this order.
    pub(in super::super) codings: Option<Spanned<Vec<Spanned<RawCoding>>>>,
    /// How much time is taken for less content.
    #[serde(default)]
    pub(in super::super) levels: RawLevels,
    /// Media types: `text/html`, `text/*` for all below it (but not `text/event-stream`), `*+json` for all that end so. Default what is known
    /// to get smaller: text, JSON, XML, scripts and the like.
    pub(in super::super) types: Option<Spanned<Vec<Spanned<String>>>>,
    /// Content of fewer octets is left as it is. Default 512.
    pub(in super::super) minimum_bytes: Option<u64>,
    /// Streams of each worker that are compressed at a time; those beyond are sent as they are. Default 128.
    pub(in super::super) streams_max: Option<usize>,
}

/// The levels of codings.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawLevels {
    /// 1 to 6. Default 4.
    pub(in super::super) br: Option<Spanned<u8>>,
    /// 1 to 9. Default 5.
    pub(in super::super) gzip: Option<Spanned<u8>>,
    /// 1 to 12. Default 3.
    pub(in super::super) zstd: Option<Spanned<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum RawCoding {
    Br,
    Gzip,
    Zstd,
}

impl<'de> Deserialize<'de> for RawCompression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RawCompression;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or a table with `codings`, `levels`, `types`, `minimum_bytes` or `streams_max`")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawCompression, E> {
                let defaults = RawCompression::Yes(Box::default());
                Ok(if is_wanted { defaults } else { RawCompression::No })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawCompression, A::Error> {
                let table = RawCompressed::deserialize(MapAccessDeserializer::new(table))?;
                Ok(RawCompression::Yes(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawCompression {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Compression".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, generator.subschema_for::<RawCompressed>()] })
    }
}
