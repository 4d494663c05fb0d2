//! Decides from the request, the response and the settings if a response is compressed.

use thruway_message::list::{contains_token, members};
use thruway_message::{FieldLines, FieldValue, Method, StatusCode, Version};

use super::config::{Compression, LeveledCoding};
use super::media_type::{EVENT_STREAM, name_of};
use crate::content_coding::choose;
use crate::request::Request;
use crate::response::Response;

/// Properties of a request that the layer needs to compress its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptedCodings {
    /// The coding that the client prefers. `None` for unencoded content.
    coder: Option<LeveledCoding>,
    /// `true` if the method is HEAD.
    pub(super) is_head: bool,
    /// `true` if `If-None-Match` contains a weak entity tag. The client may have received this tag with a
    /// compressed response.
    pub(super) revalidates_weakly: bool,
    /// `true` if the client might append an unencoded range to the encoded bytes that it already has. In this
    /// case, the layer ignores `Range`, so that the response contains the whole body.
    pub(super) may_join_codings: bool,
}

/// Decision about a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The response is never compressed.
    Leave,
    /// This client gets the unencoded response, but another client may get an encoded response.
    Vary,
    /// The body is encoded.
    Encode(LeveledCoding),
}

impl AcceptedCodings {
    pub(super) fn of(request: &Request<'_>, compression: &Compression) -> Self {
        let fields = request.field_lines();
        let coder = compression.coder_for(request);
        Self {
            coder,
            is_head: request.method() == Method::Head,
            revalidates_weakly: fields.all("if-none-match").any(has_weak_tag),
            may_join_codings: coder.is_some() && resumes_without_strong_tag(fields),
        }
    }
}

impl Compression {
    /// Returns the coding that the client of `request` prefers.
    fn coder_for(&self, request: &Request<'_>) -> Option<LeveledCoding> {
        let fields = request.field_lines();
        fields.field("accept-encoding")?;
        // HTTP/1.0 has no chunked coding, so the end of the connection would mark the end of a compressed
        // body. The client could not tell if the body is complete.
        if request.version() == Version::Http10 || fields.all("cache-control").any(forbids_transformation) {
            return None;
        }
        let coding = choose(self.coders.iter().map(|coder| coder.coding), fields)?;
        self.coders.iter().copied().find(|coder| coder.coding == coding)
    }

    pub(super) fn decide(&self, accepted: AcceptedCodings, response: &Response) -> Verdict {
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            // A 304 response has no body, so it is unknown if the layer would compress the body. The layer
            // adds `Vary`, because a cache replaces its stored `Vary` by the `Vary` of a 304 response.
            return Verdict::Vary;
        }
        if status.is_without_content() || !self.is_compressible(response) {
            return Verdict::Leave;
        }
        match accepted.coder {
            Some(coder) if is_plain_and_whole(response) => Verdict::Encode(coder),
            _ => Verdict::Vary,
        }
    }

    /// Returns `true` if `response` has a type, length and headers that allow compression. Does not check if
    /// the body is partial or already encoded. Returns `false` for a tunnel, because the length of its body
    /// is 0.
    fn is_compressible(&self, response: &Response) -> bool {
        let Some(content_type) = response.field("content-type") else { return false };
        let name = name_of(content_type.as_bytes());
        self.types.iter().any(|media_type| media_type.includes(name))
            && response.content().length().is_none_or(|length| length >= self.minimum_bytes.max(1))
            && !response.field_lines().iter().any(|line| {
                line.name.is("cache-control") && forbids_transformation(line.value)
                    || DIGESTS.iter().any(|digest| line.name.is(digest))
            })
    }
}

/// Returns `true` if the content of `response` is neither encoded nor partial.
fn is_plain_and_whole(response: &Response) -> bool {
    response.status() != StatusCode::PARTIAL_CONTENT
        && response.field("content-range").is_none()
        && response.field("content-encoding").is_none()
}

/// Returns `true` if `response` is an event stream. The encoder must not delay the events of such a stream.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let content_type = response.field("content-type");
    content_type.is_some_and(|value| name_of(value.as_bytes()).eq_ignore_ascii_case(EVENT_STREAM))
}

/// Returns `true` if `Cache-Control` contains `no-transform` (RFC 9111 §5.2.1.6 and §5.2.2.6).
fn forbids_transformation(cache_control: FieldValue<'_>) -> bool {
    contains_token(cache_control.as_bytes(), "no-transform")
}

/// Returns `true` if the client resumes a download with a date or a weak entity tag in `If-Range` (RFC 9110
/// §13.1.5). Encoded and unencoded representations have the same date, so the first part may be encoded. With
/// a strong tag, the first part is unencoded, because only unencoded representations have strong tags.
fn resumes_without_strong_tag(fields: FieldLines<'_>) -> bool {
    fields.field("range").is_some()
        && fields.all("if-range").any(|validator| !validator.as_bytes().starts_with(b"\""))
}

fn has_weak_tag(if_none_match: FieldValue<'_>) -> bool {
    members(if_none_match.as_bytes()).any(|tag| tag.starts_with(b"W/"))
}

/// Headers with a digest of the unencoded bytes: `Content-Digest` and `Repr-Digest` (RFC 9530 §2 and §3), and
/// the two older headers that they replace.
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];
