//! Settings of compression: for all responses, and for those of one listener.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::media_type::{self, InvalidMediaType, MediaType};
use crate::content_coding::ContentCoding;

/// Compresses the content of responses for clients that accept that.
///
/// ```
/// # use thruway_server::Router;
/// use thruway_server::layers::{Compression, Layered};
///
/// let router = Router::new().get("/", || "Hello, World!".repeat(100));
/// let handler = Layered::new(router).layer(Compression::new().minimum_bytes(1000));
/// ```
///
/// Compresses content of one of the [types](Self::types), of at least [`minimum_bytes`](Self::minimum_bytes)
/// or of unknown length. Never compresses encoded content (`Content-Encoding`), such as files with [encoded
/// versions](crate::Files::precompressed); messages with `Cache-Control: no-transform` in request or
/// response; partial content (206); content with a digest of its bytes; responses without content; tunnels;
/// and responses to HTTP/1.0 clients, which could not find the end.
///
/// Responses that another client might get compressed have `Vary: Accept-Encoding`. Compressed responses lose
/// `Accept-Ranges`, and a strong entity tag becomes a weak one (RFC 9110 §8.8.3.3), also in a 304. HEAD gets
/// the headers of GET without `Content-Length`. A client that accepts a coding and asks for the rest of a
/// file by its date (`If-Range`) gets the whole file: its part may be encoded, and ranges are not.
///
/// Complete content of up to 64 KiB is compressed at once. Other content is compressed as it arrives, but
/// never ahead of the client. After a tenth of a second of silence, the compressed bytes so far are sent;
/// each event of a stream is sent at once. Each such stream has its own compressor;
/// [`streams_max`](Self::streams_max) limits them for each worker.
///
/// **Secrets**: where a response has both a secret, as a token against forged requests, and something that an
/// attacker chose, as a term that was searched for, its compressed length gives the secret away bit by bit
/// (BREACH). Do not compress such responses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compression {
    pub(super) coders: Vec<Coder>,
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

    /// By [zstd, brotli or gzip](Self::DEFAULT_CODINGS), with the defaults that each method here tells.
    pub fn new() -> Self {
        Self {
            coders: Self::DEFAULT_CODINGS.map(Coder::new).into(),
            types: media_type::defaults(),
            minimum_bytes: 512,
            streams_max: 128,
        }
    }

    /// The codings, each with its level: the first of those that a client likes best is used. Default zstd at
    /// level 3, br at 4, gzip at 5. Higher levels take more time for less content.
    ///
    /// # Panics
    /// A level is not one of [`levels`](Self::levels).
    #[must_use]
    pub fn codings(mut self, codings: impl IntoIterator<Item = (ContentCoding, u8)>) -> Self {
        self.coders.clear();
        for (coding, level) in codings {
            assert!(Self::levels(coding).contains(&level), "{} has no level {level}", coding.name());
            self.coders.push(Coder { coding, level });
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

    /// The level of `coding` unless another is given.
    pub const fn default_level(coding: ContentCoding) -> u8 {
        match coding {
            ContentCoding::Brotli => 4,
            ContentCoding::Zstandard => 3,
            ContentCoding::Gzip => 5,
        }
    }

    /// The media types that are worth it: `text/html`, `text/*`, or `*+json` for all that end so. Default all
    /// text, JSON, XML, scripts, and what else is known to get smaller. `text/event-stream` is none of
    /// `text/*`: it must be named, because a compressor for each of many streams takes much memory.
    ///
    /// # Errors
    /// One is no media type.
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
    pub const fn minimum_bytes(mut self, octets: u64) -> Self {
        self.minimum_bytes = octets;
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
        for (i, Coder { coding, level }) in self.coders.iter().enumerate() {
            write!(f, "{}{} at level {level}", if i > 0 { ", " } else { "" }, coding.name())?;
        }
        write!(f, ", from {} octets on", self.minimum_bytes)
    }
}

/// A coding, and how hard it tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coder {
    pub(super) coding: ContentCoding,
    pub(super) level: u8,
}

impl Coder {
    pub(super) const fn new(coding: ContentCoding) -> Self {
        Self { coding, level: Compression::default_level(coding) }
    }
}

/// Compression of responses for one listener: see [`Listener::compression`](crate::Listener::compression).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ListenerCompression {
    /// The setting of the server.
    #[default]
    AsElsewhere,
    /// They are not.
    Off,
    /// This setting.
    As(Arc<Compression>),
}

impl From<Option<Compression>> for ListenerCompression {
    /// `None` for none.
    fn from(compression: Option<Compression>) -> Self {
        compression.map_or(Self::Off, |compression| Self::As(Arc::new(compression)))
    }
}
