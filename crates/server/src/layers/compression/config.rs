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
/// What is compressed: content of one of the [types](Self::types), of at least
/// [`minimum_bytes`](Self::minimum_bytes) or of unknown length. What is not: what has a `Content-Encoding`
/// already, as files with [encoded siblings](crate::Files::precompressed) do; what says `Cache-Control:
/// no-transform`, or whose request does; parts (206); what carries a digest of its octets; responses without
/// content; tunnels; and all to clients of HTTP/1.0, who could not tell where it ends.
///
/// Responses that another client might get compressed have `Vary: Accept-Encoding`. Compressed ones lose
/// `Accept-Ranges`, and a strong entity tag becomes a weak one (RFC 9110 §8.8.3.3), in a 304 too. HEAD is
/// answered with the fields of GET, but without `Content-Length`. Who accepts a coding and wants the rest of
/// what it has, which it knows by its date (`If-Range`), gets the whole: what it has may be encoded, and
/// parts are not.
///
/// Content up to 64 KiB that is all there is compressed at once. Otherwise it is compressed as it comes,
/// never further ahead than the client reads; what has come is sent after a tenth of a second of silence, and
/// each event of a stream at once. Each such stream has a compressor of its own, of which there are [so
/// many](Self::streams_max) for each worker.
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
    /// The codings that there are unless others are given, in this order: what takes the least time first.
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

    /// The levels of `coding`. There are higher ones elsewhere, which would hold up everybody else on the
    /// worker and take much memory: content that is worth them is compressed beforehand.
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

    /// Content of fewer octets is left as it is, if its length is known. Default 512.
    #[must_use]
    pub const fn minimum_bytes(mut self, octets: u64) -> Self {
        self.minimum_bytes = octets;
        self
    }

    /// How many streams of a worker are compressed at a time; those beyond are sent as they are. Default 128.
    /// One takes 0.4 MiB with gzip, 1.5 MiB with zstd, and with br 3.5 MiB at level 4, 5 MiB at level 6.
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

/// How responses are compressed that go out by one listener: see
/// [`Listener::compression`](crate::Listener::compression).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ListenerCompression {
    /// As elsewhere.
    #[default]
    AsElsewhere,
    /// They are not.
    Off,
    /// As this says.
    As(Arc<Compression>),
}

impl From<Option<Compression>> for ListenerCompression {
    /// `None` for none.
    fn from(compression: Option<Compression>) -> Self {
        compression.map_or(Self::Off, |compression| Self::As(Arc::new(compression)))
    }
}
