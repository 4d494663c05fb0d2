//! Conditional requests (RFC 9110 §13): compares the precondition headers of a GET or HEAD, such as
//! `If-None-Match`, with the validators of a representation.
//!
//! The functions only compare values, and read no files. Before a call, the caller must check that the server
//! would respond 200 to the request without its preconditions (§13.2.1).

use std::time::{Duration, SystemTime};

use httpdate::parse_http_date;
use thruway_message::{FieldLines, FieldValue};

use super::entity_tag::{EntityTag, members};

/// The validators of a representation (RFC 9110 §8.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Validators {
    /// A strong entity tag, with its quotes.
    pub(super) entity_tag: String,
    /// Time of the last modification in whole seconds. `None` if the time is outside the range of HTTP dates.
    pub(super) last_modified: Option<SystemTime>,
}

/// Result of the preconditions of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The preconditions allow the normal response.
    Proceed,
    /// The response is 304, because the client already has this representation.
    NotModified,
    /// The response is 412, because the representation is not in the state that the client requires.
    PreconditionFailed,
}

/// Evaluates preconditions in the order of RFC 9110 §13.2.2, steps 1 to 4.
pub(super) fn evaluate(fields: FieldLines<'_>, validators: &Validators) -> Verdict {
    let precondition = if_match(fields, validators).or_else(|| if_unmodified_since(fields, validators));
    if precondition == Some(false) {
        return Verdict::PreconditionFailed;
    }
    match if_none_match(fields, validators).or_else(|| if_modified_since(fields, validators)) {
        Some(false) => Verdict::NotModified,
        Some(true) | None => Verdict::Proceed,
    }
}

/// Evaluates `If-Match` (RFC 9110 §13.1.1) with strong comparison. This function and the next three return
/// `None` if the request does not contain their header.
fn if_match(fields: FieldLines<'_>, validators: &Validators) -> Option<bool> {
    matches_any(fields, "if-match", |tag| tag.equals_strongly(validators.tag()))
}

/// Evaluates `If-None-Match` (RFC 9110 §13.1.2) with weak comparison.
fn if_none_match(fields: FieldLines<'_>, validators: &Validators) -> Option<bool> {
    matches_any(fields, "if-none-match", |tag| tag.equals_weakly(validators.tag())).map(|matches| !matches)
}

/// Evaluates `If-Modified-Since` (RFC 9110 §13.1.3).
fn if_modified_since(fields: FieldLines<'_>, validators: &Validators) -> Option<bool> {
    let (date, last_modified) = (only_date(fields, "if-modified-since")?, validators.last_modified?);
    Some(last_modified > date)
}

/// Evaluates `If-Unmodified-Since` (RFC 9110 §13.1.4).
fn if_unmodified_since(fields: FieldLines<'_>, validators: &Validators) -> Option<bool> {
    let (date, last_modified) = (only_date(fields, "if-unmodified-since")?, validators.last_modified?);
    Some(last_modified <= date)
}

/// Returns `true` if `If-Range` allows a partial response to `Range` (RFC 9110 §13.1.5, and step 5 in
/// §13.2.2).
///
/// A date matches only if it equals the `Last-Modified` that the server sends. If a file changes twice within
/// a second, its date stays the same. This does no harm, because each response also has a strong entity tag,
/// and a client that has such a tag must not use the date. But the compression layer makes the tags of
/// compressed responses weak, so that clients use the date. For such a request, the compression layer removes
/// `Range` before it calls the file handler.
pub(super) fn allows_range(fields: FieldLines<'_>, validators: &Validators) -> bool {
    let Some(value) = fields.field("if-range") else { return true };
    match (only(fields, "if-range"), EntityTag::parse(value.as_bytes())) {
        (None, _) => false,
        (Some(_), Some(tag)) => tag.equals_strongly(validators.tag()),
        (Some(_), None) => {
            validators.last_modified.is_some() && only_date(fields, "if-range") == validators.last_modified
        }
    }
}

/// Returns `true` if the header `name` is `*`, or if one of its tags matches. `None` if the request has no
/// such header.
fn matches_any(
    fields: FieldLines<'_>,
    name: &str,
    is_wanted: impl Fn(EntityTag<'_>) -> bool,
) -> Option<bool> {
    let mut values = fields.all(name).peekable();
    values.peek()?;
    Some(values.any(|value| value == "*" || members(value.as_bytes()).any(&is_wanted)))
}

/// Returns the date in the header `name`. Ignores invalid dates and repeated headers (RFC 9110 §13.1.3 and
/// §13.1.4).
fn only_date(fields: FieldLines<'_>, name: &str) -> Option<SystemTime> {
    parse_http_date(only(fields, name)?.as_str()?).ok()
}

/// Returns the value of the header `name`, unless the request contains this header more than once.
fn only<'a>(fields: FieldLines<'a>, name: &str) -> Option<FieldValue<'a>> {
    let mut values = fields.all(name);
    let value = values.next();
    value.filter(|_| values.next().is_none())
}

impl Validators {
    fn tag(&self) -> EntityTag<'_> {
        EntityTag::strong(self.entity_tag.as_bytes())
    }
}

/// Returns the value of `Last-Modified` for a file with the modification time `modified` (RFC 9110 §8.8.2.1).
/// The value is in whole seconds and not later than `now`. Returns `None` for times before 1970 or after
/// 9999, because HTTP dates cannot express them.
pub(super) fn last_modified(modified: SystemTime, now: SystemTime) -> Option<SystemTime> {
    let since_epoch = modified.min(now).duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let seconds = Some(since_epoch.as_secs()).filter(|seconds| *seconds < YEAR_10000)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const YEAR_10000: u64 = 253_402_300_800;

#[cfg(test)]
mod tests;
