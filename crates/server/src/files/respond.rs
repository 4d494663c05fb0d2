//! Creates the response to a request for a representation. Evaluates the preconditions in the order of RFC
//! 9110 §13.2.2.

use std::io;

use rustix::io::Errno;
use thruway_message::{FieldLinesBuf, Method, StatusCode};
use thruway_net::{Admitted, LogLimit};

use super::conditions::{Verdict, allows_range, evaluate};
use super::multipart::Multipart;
use super::ranges::{ByteRange, Selection, select};
use super::representation::Representation;
use crate::request::Request;
use crate::response::{Content, Response};

/// Settings for all responses of one [`Files`](super::Files).
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) cache_control: Option<String>,
    /// `true` if the representation depends on `Accept-Encoding`.
    pub(super) is_negotiated: bool,
}

/// Returns the response to a GET or HEAD for `representation`.
pub(super) fn respond(request: &Request<'_>, representation: Representation, policy: &Policy) -> Response {
    match evaluate(request.field_lines(), &representation.validators) {
        Verdict::NotModified => not_modified(&representation, policy),
        Verdict::PreconditionFailed => Response::new(StatusCode::PRECONDITION_FAILED),
        Verdict::Proceed if request.method() == Method::Head => {
            described(&representation, policy).with_content(Content::left_out(Some(representation.length)))
        }
        Verdict::Proceed => match selection(request, &representation) {
            Selection::Whole => {
                let response = described(&representation, policy);
                with_content(response, representation.into_content())
            }
            Selection::Single(range) => single_part(representation, range, policy),
            Selection::Several(ranges) => several_parts(representation, &ranges, policy),
            Selection::Unsatisfiable => unsatisfiable(representation.length),
        },
    }
}

/// Returns the part of the representation that a GET requests (RFC 9110 §14.2 and step 5 of §13.2.2).
///
/// If a client requests several parts of an encoded representation, selects the whole representation. No
/// standard defines if `Content-Encoding` applies to each part or to the multipart body.
fn selection(request: &Request<'_>, representation: &Representation) -> Selection {
    let mut values = request.field_lines().all("range");
    let (Some(value), None) = (values.next(), values.next()) else { return Selection::Whole };
    if !allows_range(request.field_lines(), &representation.validators) {
        return Selection::Whole;
    }
    match select(value.as_bytes(), representation.length) {
        Selection::Several(_) if representation.coding.is_some() => Selection::Whole,
        selection => selection,
    }
}

/// Returns a 304 response. It contains the headers of the 200 response that a cache needs (RFC 9110 §15.4.5).
/// It does not contain `Last-Modified`, because it has an entity tag.
fn not_modified(representation: &Representation, policy: &Policy) -> Response {
    with_cache_fields(Response::new(StatusCode::NOT_MODIFIED), representation, policy)
}

/// Returns 206 with one part (RFC 9110 §15.3.7.1).
fn single_part(representation: Representation, range: ByteRange, policy: &Policy) -> Response {
    // If the request has `If-Range`, the client already has the headers. The response contains them anyway,
    // because some clients need them in each response.
    let response = described(&representation, policy)
        .with_status(StatusCode::PARTIAL_CONTENT)
        .with_field("Content-Range", format!("bytes {range}/{}", representation.length));
    with_content(response, representation.into_part(range))
}

/// Returns 206 with several parts (RFC 9110 §15.3.7.2). Each part contains its range and the media type.
fn several_parts(representation: Representation, ranges: &[ByteRange], policy: &Policy) -> Response {
    let response = with_metadata(&representation, policy).with_status(StatusCode::PARTIAL_CONTENT);
    let (multipart, content_type) = Multipart::new(representation, ranges);
    response.with_field("Content-Type", content_type).with_content(Content::from_content_stream(multipart))
}

/// Returns 416 with the length of the representation (RFC 9110 §15.5.17).
fn unsatisfiable(length: u64) -> Response {
    Response::new(StatusCode::RANGE_NOT_SATISFIABLE).with_field("Content-Range", format!("bytes */{length}"))
}

/// Returns 200 with all metadata, but without a body.
fn described(representation: &Representation, policy: &Policy) -> Response {
    let response =
        with_metadata(representation, policy).with_field("Content-Type", &*representation.content_type);
    match representation.coding {
        Some(coding) => response.with_field("Content-Encoding", coding.name()),
        None => response,
    }
}

/// Returns 200 without a body, with the headers that full responses and partial responses have in common.
fn with_metadata(representation: &Representation, policy: &Policy) -> Response {
    let response = with_cache_fields(Response::ok(SAME_FOR_ALL, Content::empty()), representation, policy);
    match representation.validators.last_modified {
        Some(date) => response.with_field("Last-Modified", httpdate::fmt_http_date(date)),
        None => response,
    }
}

fn with_cache_fields(response: Response, representation: &Representation, policy: &Policy) -> Response {
    let mut response = response.with_field("ETag", &representation.validators.entity_tag);
    if policy.is_negotiated {
        response = response.with_field("Vary", "Accept-Encoding");
    }
    match &policy.cache_control {
        Some(value) => response.with_field("Cache-Control", value),
        None => response,
    }
}

/// Adds the body `content` to `response`. If the file cannot be read, or another process has shortened it,
/// returns a 500 response instead.
fn with_content(response: Response, content: io::Result<Content>) -> Response {
    match content {
        Ok(content) => response.with_content(content),
        Err(error) => {
            log_failure(&error, "cannot read a file");
            Response::new(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// Returns `true` if `error` means that the path names no file below the root.
pub(super) const fn is_missing(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::NXIO
            | Errno::NODEV
    )
}

/// Returns the response for a file that could not be opened. A path that leaves the root gets the same
/// response as a missing file.
pub(super) fn unopened(error: Errno) -> Response {
    match error {
        error if is_missing(error) => not_found(),
        Errno::ACCESS | Errno::PERM => Response::new(StatusCode::FORBIDDEN),
        // The process has no free file descriptors, or the lookup was interrupted repeatedly. A later attempt
        // may succeed.
        Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::INTR => {
            Response::new(StatusCode::SERVICE_UNAVAILABLE)
        }
        error => {
            log_failure(&error, "cannot open a file");
            Response::new(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

#[cold]
fn log_failure(error: &dyn std::error::Error, action: &str) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "{action}");
    }
}

pub(super) fn not_found() -> Response {
    Response::text("not found\n").with_status(StatusCode::NOT_FOUND)
}

/// Returns 406, because the client accepts neither an available coding nor the unencoded file (RFC 9110
/// §12.5.3).
pub(super) fn not_acceptable() -> Response {
    Response::new(StatusCode::NOT_ACCEPTABLE).with_field("Vary", "Accept-Encoding")
}

/// Returns the response to methods other than GET and HEAD.
pub(super) fn without_method(method: Method<'_>) -> Response {
    let status = match method {
        Method::Options => StatusCode::NO_CONTENT,
        _ => StatusCode::METHOD_NOT_ALLOWED,
    };
    Response::new(status).with_field("Allow", "GET, HEAD, OPTIONS")
}

/// Redirects to the same path with a slash at its end, because relative links in the index page need this
/// slash. The status is 301, as with nginx.
///
/// The path of `Location` begins with exactly one slash, because after two slashes, the next segment would
/// name another host (RFC 3986 §4.2). Browsers treat a backslash as a slash, but paths with a backslash are
/// rejected earlier with 404.
pub(super) fn to_directory(request: &Request<'_>) -> Response {
    let path = request.path().trim_start_matches('/');
    let location = match request.query_string() {
        Some(query) => format!("/{path}/?{query}"),
        None => format!("/{path}/"),
    };
    Response::redirect(StatusCode::MOVED_PERMANENTLY, &location)
}

const SAME_FOR_ALL: FieldLinesBuf =
    FieldLinesBuf::from_static("Accept-Ranges: bytes\r\nX-Content-Type-Options: nosniff\r\n");
