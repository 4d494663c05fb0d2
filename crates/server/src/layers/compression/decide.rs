//! Which responses are compressed: what the request and the response say, against the rules.

use thruway_message::list::{contains_token, members};
use thruway_message::{FieldLines, FieldValue, Method, StatusCode, Version};

use super::config::{Coder, Compression};
use super::media_type::{EVENT_STREAM, name_of};
use crate::content_coding::choose;
use crate::request::Request;
use crate::response::Response;

/// What a request says of the content that it asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    /// What its client likes best; `None` for content as it is.
    coder: Option<Coder>,
    /// It wants the head only.
    pub(super) is_head: bool,
    /// It has a weak entity tag to compare with, as compression makes of strong ones.
    pub(super) revalidates_weakly: bool,
    /// The part that it asks for might be put behind encoded octets: only the whole may be sent.
    pub(super) may_join_codings: bool,
}

/// What is done with a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing: everybody gets it as it is.
    Leave,
    /// This client gets it as it is, another might not.
    Vary,
    /// Its content is encoded.
    Encode(Coder),
}

impl Wishes {
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
    /// What the client of `request` likes best of what there is.
    fn coder_for(&self, request: &Request<'_>) -> Option<Coder> {
        let fields = request.field_lines();
        fields.field("accept-encoding")?;
        // HTTP/1.0 has no chunks: where content ends with the connection, nobody knows whether it is whole.
        if request.version() == Version::Http10 || fields.all("cache-control").any(forbids_transformation) {
            return None;
        }
        let coding = choose(self.coders.iter().map(|coder| coder.coding), fields)?;
        self.coders.iter().copied().find(|coder| coder.coding == coding)
    }

    pub(super) fn decide(&self, wishes: Wishes, response: &Response) -> Verdict {
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            // Nothing is known of the content that it is about; caches replace their `Vary` by this one.
            return Verdict::Vary;
        }
        if status.is_without_content() || !self.is_worth_it(response) {
            return Verdict::Leave;
        }
        match wishes.coder {
            Some(coder) if is_plain_and_whole(response) => Verdict::Encode(coder),
            _ => Verdict::Vary,
        }
    }

    /// Whether some clients get `response` compressed, if it is whole and not compressed already. Tunnels
    /// have a length of 0.
    fn is_worth_it(&self, response: &Response) -> bool {
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

/// Whether the content of `response` is neither encoded nor a part of something.
fn is_plain_and_whole(response: &Response) -> bool {
    response.status() != StatusCode::PARTIAL_CONTENT
        && response.field("content-range").is_none()
        && response.field("content-encoding").is_none()
}

/// Whether `response` is a stream whose events must not wait for each other.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let content_type = response.field("content-type");
    content_type.is_some_and(|value| name_of(value.as_bytes()).eq_ignore_ascii_case(EVENT_STREAM))
}

/// RFC 9111 §5.2.1.6 and §5.2.2.6.
fn forbids_transformation(cache_control: FieldValue<'_>) -> bool {
    contains_token(cache_control.as_bytes(), "no-transform")
}

/// Whether the client would put the part that it asks for behind octets of which it does not know the strong
/// entity tag (RFC 9110 §13.1.5). By their date, the whole in a coding and its parts without one are the
/// same; strong tags are of those without one only.
fn resumes_without_strong_tag(fields: FieldLines<'_>) -> bool {
    fields.field("range").is_some()
        && fields.all("if-range").any(|validator| !validator.as_bytes().starts_with(b"\""))
}

fn has_weak_tag(if_none_match: FieldValue<'_>) -> bool {
    members(if_none_match.as_bytes()).any(|tag| tag.starts_with(b"W/"))
}

/// Fields with a digest of the octets as they are: of content (RFC 9530 §2), of the representation (§3), and
/// their predecessors.
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];
