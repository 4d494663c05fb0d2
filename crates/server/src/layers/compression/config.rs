//! Compression settings for all responses, or for the responses of one listener.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::media_type::{self, InvalidMediaType, MediaType};
use crate::content_coding::ContentCoding;

/// A layer that compresses response bodies for clients that accept a content coding.
///
/// ```
/// # use thruway_server::Router;
/// use thruway_server::layers::{Compression, Layered};
///
/// let router = Router::new().get("/", || "Hello, World!".repeat(100));
/// let handler = Layered::new(router).layer(Compression::new().minimum_bytes(1000));
/// ```
///
/// The layer compresses bodies of the configured [types](Self::types). If the length of a body is known, it
/// must be at least [`minimum_bytes`](Self::minimum_bytes). The layer never compresses:
///
/// - bodies that are already encoded (`Content-Encoding`), such as [encoded
///   files](crate::Files::precompressed),
/// - responses with `Cache-Control: no-transform`, and responses to requests with this header,
/// - partial content (206),
/// - bodies with a digest in a header, such as `Content-Digest`,
/// - responses without a body, and tunnels,
/// - responses to HTTP/1.0 clients, because they could not detect if a compressed body is complete.
///
/// If the layer may compress a response for some clients, the response has `Vary: Accept-Encoding` for all
/// clients. A compressed response has no `Accept-Ranges`. The layer turns the strong entity tag of a
/// compressed response into a weak tag (RFC 9110 §8.8.3.3). It does the same in a 304 response if the request
/// contains a weak tag. The response to HEAD has the same headers as the response to GET, except
/// `Content-Length`. If a client accepts a coding and resumes a download by date (`If-Range`), it gets the
/// whole file. Its first part may be encoded, and the remaining range would be unencoded.
///
/// Complete bodies of up to 64 KiB are compressed at once. Other bodies are compressed piece by piece while
/// they arrive, but no faster than the client reads. If no data arrives for a tenth of a second, the layer
/// sends the bytes that it has compressed so far. Each event of an event stream is sent at once. Each
/// streamed body needs a separate compressor. [`streams_max`](Self::streams_max) limits the number of
/// compressors of a worker.
///
/// **Secrets**: do not compress responses that contain both a secret, such as an anti-CSRF token, and text
/// that an attacker controls, such as a search term. The compressed length would reveal the secret step by
/// step (BREACH).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compression {
    pub(super) coders: Vec<LeveledCoding>,
    pub(super) types: Vec<MediaType>,
    pub(super) minimum_bytes: u64,
    pub(super) streams_max: usize,
}

impl Default for Compression {
    fn default() -> Self {
        Self::new()
    }
}

impl Compression {
    /// Default codings in order of preference, fastest first.
    pub const DEFAULT_CODINGS: [ContentCoding; 3] =
        [ContentCoding::Zstandard, ContentCoding::Brotli, ContentCoding::Gzip];

    /// Creates a layer with [zstd, brotli and gzip](Self::DEFAULT_CODINGS) and the default settings. See the
    /// other methods for these defaults.
    pub fn new() -> Self {
        Self {
            coders: Self::DEFAULT_CODINGS.map(LeveledCoding::new).into(),
            types: media_type::defaults(),
            minimum_bytes: 512,
            streams_max: 128,
        }
    }

    /// Sets the codings with their levels, in order of preference. If a client gives several codings the same
    /// weight, the layer uses the first of them. Default: zstd at level 3, br at level 4, gzip at level 5.
    /// Higher levels compress better but take more time.
    ///
    /// # Panics
    /// A level is outside the allowed [`levels`](Self::levels) of its coding.
    #[must_use]
    pub fn codings(mut self, codings: impl IntoIterator<Item = (ContentCoding, u8)>) -> Self {
        self.coders.clear();
        for (coding, level) in codings {
            assert!(Self::levels(coding).contains(&level), "{} has no level {level}", coding.name());
            self.coders.push(LeveledCoding { coding, level });
        }
        self
    }

    /// Returns the allowed levels of `coding`. The codings have higher levels, but these would delay other
    /// requests of the worker and need much memory. To use a higher level, compress files in advance (see
    /// [`precompressed`](crate::Files::precompressed)).
    pub const fn levels(coding: ContentCoding) -> RangeInclusive<u8> {
        match coding {
            ContentCoding::Brotli => 1..=6,
            ContentCoding::Gzip => 1..=9,
            ContentCoding::Zstandard => 1..=12,
        }
    }

    /// Returns the default level of `coding`.
    pub const fn default_level(coding: ContentCoding) -> u8 {
        match coding {
            ContentCoding::Brotli => 4,
            ContentCoding::Zstandard => 3,
            ContentCoding::Gzip => 5,
        }
    }

    /// Sets the media types to compress: a type such as `text/html`, a group such as `text/*`, or a suffix
    /// such as `*+json`. Default: all text, JSON, XML, scripts, and other types that are known to compress
    /// well. `text/*` does not include `text/event-stream`, because each open event stream would need a
    /// compressor and much memory. To compress event streams, add `text/event-stream` to the list.
    ///
    /// # Errors
    /// An item is not a media type.
    pub fn types<T: AsRef<str>>(
        mut self,
        types: impl IntoIterator<Item = T>,
    ) -> Result<Self, InvalidMediaType> {
        self.types =
            types.into_iter().map(|text| MediaType::parse(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Sets the minimum length of a body to compress, in bytes. Default 512. The minimum does not apply to
    /// bodies of unknown length.
    #[must_use]
    pub const fn minimum_bytes(mut self, bytes: u64) -> Self {
        self.minimum_bytes = bytes;
        self
    }

    /// Sets the maximum number of streamed bodies that a worker compresses at the same time. Further bodies
    /// are sent uncompressed. Default 128. The compressor of a body needs 0.4 MiB with gzip and 1.5 MiB with
    /// zstd. With br, it needs 3.5 MiB at level 4, and 5 MiB at level 6.
    #[must_use]
    pub const fn streams_max(mut self, streams: usize) -> Self {
        self.streams_max = streams;
        self
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, LeveledCoding { coding, level }) in self.coders.iter().enumerate() {
            write!(f, "{}{} at level {level}", if i > 0 { ", " } else { "" }, coding.name())?;
        }
        write!(f, ", from {} bytes on", self.minimum_bytes)
    }
}

/// A coding with its level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeveledCoding {
    pub(super) coding: ContentCoding,
    pub(super) level: u8,
}

impl LeveledCoding {
    pub(super) const fn new(coding: ContentCoding) -> Self {
        Self { coding, level: Compression::default_level(coding) }
    }
}

/// Compression of responses for one listener: see [`Listener::compression`](crate::Listener::compression).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ListenerCompression {
    /// Use the settings of the layer [`ByListener`](super::ByListener).
    #[default]
    AsElsewhere,
    /// Do not compress responses.
    Off,
    /// Use these compression settings.
    As(Arc<Compression>),
}

impl From<Option<Compression>> for ListenerCompression {
    /// Converts `None` to `Off`.
    fn from(compression: Option<Compression>) -> Self {
        compression.map_or(Self::Off, |compression| Self::As(Arc::new(compression)))
    }
}
