//! Compression settings for all responses, or for those of one listener.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::media_type::{self, InvalidMediaType, MediaType};
use crate::content_coding::ContentCoding;

/// Compresses response bodies for clients that accept it.
///
/// ```
/// # use thruway_server::Router;
/// use thruway_server::layers::{Compression, Layered};
///
/// let router = Router::new().get("/", || "Hello, World!".repeat(100));
/// let handler = Layered::new(router).layer(Compression::new().minimum_bytes(1000));
/// ```
///
/// Compresses bodies of the configured [types](Self::types) that have at least
/// [`minimum_bytes`](Self::minimum_bytes) or an unknown length. It never compresses:
///
/// - encoded bodies (`Content-Encoding`), such as files with [encoded versions](crate::Files::precompressed),
/// - messages with `Cache-Control: no-transform` in request or response,
/// - partial content (206),
/// - bodies with a digest of their bytes,
/// - responses without a body, and tunnels,
/// - responses to HTTP/1.0 clients, which could not detect the end.
///
/// Responses that other clients might get compressed have `Vary: Accept-Encoding`. Compressed responses lose
/// `Accept-Ranges`, and a strong entity tag becomes a weak one (RFC 9110 §8.8.3.3), also in a 304. HEAD gets
/// the headers of GET without `Content-Length`. Clients that accept a coding and resume a file by its date
/// (`If-Range`) get the whole file. Their first part may be encoded, but ranges are not.
///
/// Complete bodies of up to 64 KiB are compressed at once. Other bodies are compressed as they arrive, but
/// never ahead of the client. After a tenth of a second without data, the compressed bytes so far are sent.
/// Each event of an event stream is sent at once. Each stream has its own compressor;
/// [`streams_max`](Self::streams_max) limits their number for each worker.
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

    /// Creates a layer with [zstd, brotli and gzip](Self::DEFAULT_CODINGS). The documentation of each method
    /// states its default.
    pub fn new() -> Self {
        Self {
            coders: Self::DEFAULT_CODINGS.map(LeveledCoding::new).into(),
            types: media_type::defaults(),
            minimum_bytes: 512,
            streams_max: 128,
        }
    }

    /// Sets the codings with their levels, in order of preference. Among the codings that the client prefers
    /// equally, the first wins. Default: zstd at level 3, br at 4, gzip at 5. Higher levels compress better
    /// but take more time.
    ///
    /// # Panics
    /// A level is not one of [`levels`](Self::levels).
    #[must_use]
    pub fn codings(mut self, codings: impl IntoIterator<Item = (ContentCoding, u8)>) -> Self {
        self.coders.clear();
        for (coding, level) in codings {
            assert!(Self::levels(coding).contains(&level), "{} has no level {level}", coding.name());
            self.coders.push(LeveledCoding { coding, level });
        }
        self
    }

    /// Returns the allowed levels of `coding`. Higher levels exist, but they would delay other requests of
    /// the worker and need much memory. Compress such content in advance.
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

    /// Sets the media types to compress, such as `text/html`, `text/*`, or `*+json` for a suffix. Default:
    /// all text, JSON, XML, scripts, and other types that are known to compress well. `text/*` does not
    /// include `text/event-stream`: it must be listed, because a compressor for each of many streams needs
    /// much memory.
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

    /// Minimum length of compressed content in bytes, if its length is known. Default 512.
    #[must_use]
    pub const fn minimum_bytes(mut self, bytes: u64) -> Self {
        self.minimum_bytes = bytes;
        self
    }

    /// Maximum number of streams that a worker compresses at a time. Further streams are sent uncompressed.
    /// Default 128. A stream needs 0.4 MiB with gzip, 1.5 MiB with zstd, and with br 3.5 MiB at level 4 or 5
    /// MiB at level 6.
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
    /// Use the setting of the server.
    #[default]
    AsElsewhere,
    /// Do not compress.
    Off,
    /// Use this setting.
    As(Arc<Compression>),
}

impl From<Option<Compression>> for ListenerCompression {
    /// Converts `None` to `Off`.
    fn from(compression: Option<Compression>) -> Self {
        compression.map_or(Self::Off, |compression| Self::As(Arc::new(compression)))
    }
}
