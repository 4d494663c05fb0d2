//! Parses `status-line = HTTP-version SP status-code SP [ reason-phrase ] CRLF` (RFC 9112 §4).

use thruway_message::{StatusCode, Version};

use crate::error::Error;
use crate::request_line::{VERSION_BYTES, parse_version_name};
use crate::scan;
use crate::scan::parse_line_end;

/// The positions of the parts of a status line in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusLine {
    pub(crate) version: Version,
    pub(crate) status: StatusCode,
    reason_start: usize,
    reason_end: usize,
    /// The start of the header section.
    pub(crate) end: usize,
}

impl StatusLine {
    /// Returns the reason phrase. `input` must be the input from which this status line was parsed.
    #[inline]
    pub(crate) fn reason<'i>(&self, input: &'i [u8]) -> &'i [u8] {
        &input[self.reason_start..self.reason_end]
    }
}

impl Default for StatusLine {
    fn default() -> Self {
        Self { version: Version::Http11, status: StatusCode::OK, reason_start: 0, reason_end: 0, end: 0 }
    }
}

/// Parses the status line at the start of `input` into `line`. Returns `false` if the status line is
/// incomplete.
#[inline]
pub(crate) fn parse(input: &[u8], line: &mut StatusLine) -> Result<bool, Error> {
    let view = &input[..input.len().min(STATUS_LINE_BYTES_MAX)];
    match parse_within(view, line) {
        Ok(false) if view.len() == STATUS_LINE_BYTES_MAX => Err(Error::StatusLineInvalid),
        parsed => parsed,
    }
}

fn parse_within(view: &[u8], line: &mut StatusLine) -> Result<bool, Error> {
    let Some(version) = parse_version(view)? else {
        return Ok(false);
    };
    let Some(status) = parse_status(&view[VERSION_BYTES..])? else {
        return Ok(false);
    };
    let status_end = VERSION_BYTES + STATUS_BYTES;
    // Many servers omit the space before an empty reason phrase. A status line without this space is
    // still unambiguous.
    let reason_start = match view.get(status_end) {
        Some(b' ') => status_end + 1,
        Some(b'\r') => status_end,
        Some(_) => return Err(Error::StatusLineInvalid),
        None => return Ok(false),
    };
    let reason_end = scan::field_value_end(view, reason_start);
    let end = match parse_line_end(view, reason_end) {
        Ok(Some(end)) => end,
        Ok(None) => return Ok(false),
        Err(Error::FieldValueInvalid) => return Err(Error::StatusLineInvalid),
        Err(error) => return Err(error),
    };
    // Separate assignments are faster than building a new value and copying it.
    line.version = version;
    line.status = status;
    line.reason_start = reason_start;
    line.reason_end = reason_end;
    line.end = end;
    Ok(true)
}

/// Parses the version. Returns `None` if the version is incomplete.
#[inline]
fn parse_version(view: &[u8]) -> Result<Option<Version>, Error> {
    match view.first_chunk::<VERSION_BYTES>() {
        Some(b"HTTP/1.1") => Ok(Some(Version::Http11)),
        _ => match parse_version_name(view) {
            Ok(version) => version.transpose(),
            Err(_) => Err(Error::StatusLineInvalid),
        },
    }
}

/// Parses a space and the three digits of the status code. Returns `None` if the space or a digit is
/// still missing.
#[inline]
fn parse_status(bytes: &[u8]) -> Result<Option<StatusCode>, Error> {
    let code = match bytes {
        [b' ', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
            [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(**digit - b'0'))
        }
        [] | [b' '] | [b' ', b'0'..=b'9'] | [b' ', b'0'..=b'9', b'0'..=b'9'] => return Ok(None),
        _ => return Err(Error::StatusLineInvalid),
    };
    StatusCode::new(code).map(Some).map_err(|_| Error::StatusLineInvalid)
}

/// Length of the space and the three digits of a status code, in bytes.
const STATUS_BYTES: usize = 4;

/// Maximum length of a status line, in bytes. Clients ignore the reason phrase (RFC 9112 §4), so no
/// server needs a longer status line.
const STATUS_LINE_BYTES_MAX: usize = 1024;
