//! The key `compression`, for the compression of responses.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_server::ContentCoding;
use thruway_server::layers::Compression;

use super::resolver::Resolver;
use super::values::Spanned;

/// The value of `compression`: `false`, or the settings.
pub(super) enum RawCompression {
    No,
    Yes(Box<RawCompressed>),
}

/// Compression of responses.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCompressed {
    /// Content codings: `zstd`, `br` and `gzip`. If a client accepts several codings with equal preference,
    /// Thruway uses the coding that comes first in this list. Default: `zstd`, `br`, `gzip`.
    pub(super) codings: Option<Spanned<Vec<Spanned<RawCoding>>>>,
    /// Compression levels of the content codings. Higher levels need more CPU time.
    #[serde(default)]
    pub(super) levels: RawLevels,
    /// Media types to compress: `text/html`, `text/*` (all text types except `text/event-stream`), or
    /// `*+json` (all types with this suffix). Default: text, JSON, XML, scripts and similar types.
    pub(super) types: Option<Spanned<Vec<Spanned<String>>>>,
    /// Minimum size of a body in bytes. Smaller bodies are not compressed. Default: 512.
    pub(super) bytes_min: Option<u64>,
    /// Maximum number of responses that a worker compresses at the same time. Thruway sends further
    /// responses uncompressed. Default: 128.
    pub(super) streams_max: Option<usize>,
}

/// Compression levels of the content codings.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLevels {
    /// Level of `br`, 1 to 6. Default: 4.
    pub(super) br: Option<Spanned<u8>>,
    /// Level of `gzip`, 1 to 9. Default: 5.
    pub(super) gzip: Option<Spanned<u8>>,
    /// Level of `zstd`, 1 to 12. Default: 3.
    pub(super) zstd: Option<Spanned<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawCoding {
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
                f.write_str("`true`, `false` or a table with `codings`, `levels`, `types`, `bytes_min` or `streams_max`")
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

/// Returns the compression settings, or `None` if responses are not compressed.
pub(super) fn resolve_compression(resolver: &mut Resolver<'_>, raw: RawCompression) -> Option<Compression> {
    let RawCompression::Yes(raw) = raw else { return None };
    let RawCompressed { codings, levels, types, bytes_min, streams_max } = *raw;
    let levels = [
        resolve_level(resolver, levels.br, ContentCoding::Brotli),
        resolve_level(resolver, levels.gzip, ContentCoding::Gzip),
        resolve_level(resolver, levels.zstd, ContentCoding::Zstandard),
    ];
    let level_of = |coding| levels.into_iter().find(|(of, _)| *of == coding);
    let mut compression =
        Compression::new().codings(resolve_codings(resolver, codings).into_iter().filter_map(level_of));
    if let Some(types) = types {
        compression = resolve_media_types(resolver, compression, &types);
    }
    if let Some(bytes) = bytes_min {
        compression = compression.minimum_bytes(bytes);
    }
    if let Some(streams) = streams_max {
        compression = compression.streams_max(streams);
    }
    Some(compression)
}

fn resolve_codings(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Vec<Spanned<RawCoding>>>>,
) -> Vec<ContentCoding> {
    let Some(raw) = raw else { return Compression::DEFAULT_CODINGS.into() };
    resolver.refuse_empty(&raw, "`codings` is empty", "write `compression = false`");
    let mut codings = Vec::new();
    for name in raw.get_ref() {
        let coding = match name.get_ref() {
            RawCoding::Br => ContentCoding::Brotli,
            RawCoding::Gzip => ContentCoding::Gzip,
            RawCoding::Zstd => ContentCoding::Zstandard,
        };
        if codings.contains(&coding) {
            resolver.refuse(name, format!("`{}` is listed twice", coding.name()));
        }
        codings.push(coding);
    }
    codings
}

fn resolve_level(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<u8>>,
    coding: ContentCoding,
) -> (ContentCoding, u8) {
    let (default, levels) = (Compression::default_level(coding), Compression::levels(coding));
    let level = resolver.or(raw, default, levels.clone());
    (coding, if levels.contains(&level) { level } else { default })
}

fn resolve_media_types(
    resolver: &mut Resolver<'_>,
    compression: Compression,
    raw: &Spanned<Vec<Spanned<String>>>,
) -> Compression {
    resolver.refuse_empty(raw, "`types` is empty", "write `compression = false`");
    for text in raw.get_ref() {
        if let Err(error) = Compression::new().types([text.get_ref()]) {
            resolver.refuse_with(
                text,
                error,
                "write `text/html`, `text/*`, or `*+json` for all types with this suffix",
            );
        }
    }
    compression.types(raw.get_ref().iter().map(|text| text.get_ref())).unwrap_or_default()
}
