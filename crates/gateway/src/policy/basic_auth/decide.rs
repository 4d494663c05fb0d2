//! The name and the password that a request says (RFC 7617 §2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thruway_message::RequestHead;

use crate::policy::credentials::{Presented, authorization};

/// There are no credentials, or what there is cannot be any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unusable {
    pub(super) is_missing: bool,
}

/// Name and password, decoded in `buffer`. Control characters are in neither (RFC 7617 §2), and no password is longer than
/// what bcrypt looks at: otherwise there were several right ones.
pub(super) fn credentials<'b>(
    head: &RequestHead<'_>,
    buffer: &'b mut [u8; CREDENTIALS_BYTES_MAX],
) -> Result<(&'b str, &'b str), Unusable> {
    let encoded = match authorization(head, "Basic") {
        Presented::None => return Err(Unusable { is_missing: true }),
        Presented::One(encoded) => encoded,
        Presented::Several => return Err(Unusable { is_missing: false }),
    };
    decoded(encoded, buffer).ok_or(Unusable { is_missing: false })
}

fn decoded<'b>(encoded: &[u8], buffer: &'b mut [u8; CREDENTIALS_BYTES_MAX]) -> Option<(&'b str, &'b str)> {
    let length = STANDARD.decode_slice(encoded, buffer).ok()?;
    let text = str::from_utf8(&buffer[..length]).ok()?;
    let (name, password) = text.split_once(':')?;
    let is_usable = password.len() <= PASSWORD_BYTES_MAX && !text.chars().any(char::is_control);
    is_usable.then_some((name, password))
}

pub(super) const CREDENTIALS_BYTES_MAX: usize = 512;
const PASSWORD_BYTES_MAX: usize = 71;
