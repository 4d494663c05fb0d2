//! `status-line = HTTP-version SP status-code SP [ reason-phrase ] CRLF` (RFC 9112 §4).

use thruway_message::{StatusCode, Version};

use crate::line_end::parse_line_end;
use crate::request_line::{VERSION_BYTES, parse_version_name};
use crate::{Error, scan};

/// A status line, and where the header section starts.
pub(crate) struct StatusLine<'i> {
    pub(crate) version: Version,
    pub(crate) status: StatusCode,
    pub(crate) reason: &'i [u8],
    pub(crate) end: usize,
}

/// Parses the status line at the start of `input`; `None` while its end is missing.
pub(crate) fn parse(input: &[u8]) -> Result<Option<StatusLine<'_>>, Error> {
    let view = &input[..input.len().min(STATUS_LINE_BYTES_MAX)];
    match parse_within(view) {
        Ok(None) if view.len() == STATUS_LINE_BYTES_MAX => Err(Error::StatusLineInvalid),
        parsed => parsed,
    }
}

fn parse_within(view: &[u8]) -> Result<Option<StatusLine<'_>>, Error> {
    let version = match parse_version_name(view) {
        Ok(Some(version)) => version?,
        Ok(None) => return Ok(None),
        Err(_) => return Err(Error::StatusLineInvalid),
    };
    let Some(status) = parse_status(&view[VERSION_BYTES..])? else {
        return Ok(None);
    };
    let status_end = VERSION_BYTES + STATUS_BYTES;
    // Many servers leave out the space before an empty reason phrase; nothing can be mistaken by it.
    let reason_start = match view.get(status_end) {
        Some(b' ') => status_end + 1,
        Some(b'\r') => status_end,
        Some(_) => return Err(Error::StatusLineInvalid),
        None => return Ok(None),
    };
    let reason_end = scan::field_value_end(view, reason_start);
    let end = match parse_line_end(view, reason_end) {
        Ok(Some(end)) => end,
        Ok(None) => return Ok(None),
        Err(Error::FieldValueInvalid) => return Err(Error::StatusLineInvalid),
        Err(error) => return Err(error),
    };
    Ok(Some(StatusLine { version, status, reason: &view[reason_start..reason_end], end }))
}

/// A space and three digits; `None` while they are not all there.
fn parse_status(octets: &[u8]) -> Result<Option<StatusCode>, Error> {
    let arrived = &octets[..octets.len().min(STATUS_BYTES)];
    let fits = arrived.iter().zip(b" 000").all(|(octet, pattern)| match pattern {
        b'0' => octet.is_ascii_digit(),
        other => octet == other,
    });
    if !fits {
        return Err(Error::StatusLineInvalid);
    }
    let [_, digits @ ..] = arrived else {
        return Ok(None);
    };
    if digits.len() < STATUS_BYTES - 1 {
        return Ok(None);
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    StatusCode::new(code).map(Some).map_err(|_| Error::StatusLineInvalid)
}

/// A space and three digits.
const STATUS_BYTES: usize = 4;

/// A reason phrase means nothing (RFC 9112 §4): one that does not fit here is refused.
const STATUS_LINE_BYTES_MAX: usize = 1024;
