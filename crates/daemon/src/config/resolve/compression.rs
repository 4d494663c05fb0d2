//! What is compressed.

use thruway_server::ContentCoding;
use thruway_server::layers::Compression;

use super::resolver::Resolver;
use crate::config::raw::{RawCoding, RawCompressed, RawCompression};
use crate::config::spanned::Spanned;

/// How responses are compressed; `None` if they are not.
pub(super) fn resolve_compression(resolver: &mut Resolver<'_>, raw: RawCompression) -> Option<Compression> {
    let RawCompression::Yes(raw) = raw else { return None };
    let RawCompressed { codings, levels, types, minimum_bytes, streams_max } = *raw;
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
    if let Some(octets) = minimum_bytes {
        compression = compression.minimum_bytes(octets);
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
    resolver.refuse_empty(&raw, "there is no coding to compress with", "write `compression = false`");
    let mut codings = Vec::new();
    for name in raw.get_ref() {
        let coding = match name.get_ref() {
            RawCoding::Br => ContentCoding::Brotli,
            RawCoding::Gzip => ContentCoding::Gzip,
            RawCoding::Zstd => ContentCoding::Zstandard,
        };
        if codings.contains(&coding) {
            resolver.refuse(name, format!("`{}` stands here already", coding.name()));
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
    resolver.refuse_empty(raw, "there is no type to compress", "write `compression = false`");
    for text in raw.get_ref() {
        if let Err(error) = Compression::new().types([text.get_ref()]) {
            resolver.refuse_with(text, error, "write `text/html`, `text/*`, or `*+json` for all that end so");
        }
    }
    compression.types(raw.get_ref().iter().map(|text| text.get_ref())).unwrap_or_default()
}
