//! The end of a line, wherever there are lines: start lines, field lines, chunk lines.

use crate::Error;

/// CRLF at `at`, and where the next line starts; `None` if it has not wholly arrived (RFC 9112 §2.2).
#[inline]
pub(crate) fn parse_line_end(view: &[u8], at: usize) -> Result<Option<usize>, Error> {
    match view.get(at..).unwrap_or_default() {
        [b'\r', b'\n', ..] => Ok(Some(at + 2)),
        [] | [b'\r'] => Ok(None),
        [b'\r', ..] => Err(Error::BareCarriageReturn),
        [b'\n', ..] => Err(Error::BareLineFeed),
        _ => Err(Error::FieldValueInvalid),
    }
}
