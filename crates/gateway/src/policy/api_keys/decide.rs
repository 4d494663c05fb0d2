//! Finds the API key in a request.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use thruway_message::RequestHead;

use crate::policy::credentials::{PresentedCredentials, authorization, only};
use crate::policy::refusal::Refusal;

/// The place in a request where clients send their API key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyPlace {
    /// The header `Authorization: Bearer KEY` (RFC 6750 §2.1).
    Bearer,
    /// The header with this name.
    Header(String),
    /// The query parameter with this name. A header is safer, because other programs write queries to their
    /// access logs.
    Query(String),
}

/// The API key that a request contains.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Key<'r> {
    None,
    Shown(Cow<'r, [u8]>),
    /// The request contains several keys, or a key that is too long.
    Unusable,
}

pub(super) fn presented<'r>(head: &RequestHead<'r>, place: &KeyPlace) -> Key<'r> {
    let key = match place {
        KeyPlace::Bearer => Key::from(authorization(head, "Bearer")),
        KeyPlace::Header(name) => Key::from(only(head.field_lines, name)),
        KeyPlace::Query(name) => in_query(head.target.query().unwrap_or_default(), name),
    };
    match key {
        Key::Shown(key) if key.is_empty() => Key::None,
        Key::Shown(key) if key.len() > KEY_BYTES_MAX => Key::Unusable,
        key => key,
    }
}

fn in_query<'r>(query: &'r str, name: &str) -> Key<'r> {
    let mut values = query.split('&').filter_map(|parameter| {
        let (of, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        percent_decode_str(of).eq(name.bytes()).then(|| percent_decode_str(value).into())
    });
    match (values.next(), values.next()) {
        (None, _) => Key::None,
        (Some(value), None) => Key::Shown(value),
        (Some(_), Some(_)) => Key::Unusable,
    }
}

impl<'r> From<PresentedCredentials<'r>> for Key<'r> {
    fn from(presented: PresentedCredentials<'r>) -> Self {
        match presented {
            PresentedCredentials::None => Self::None,
            PresentedCredentials::One(key) => Self::Shown(key.into()),
            PresentedCredentials::Several => Self::Unusable,
        }
    }
}

impl KeyPlace {
    /// Returns the refusal with a challenge, which RFC 9110 §15.5.2 requires in each 401 response. For keys
    /// outside of `Authorization`, no authentication scheme is registered.
    pub(super) const fn challenge(&self, is_missing: bool) -> Refusal {
        let (scheme, parameters) = match self {
            Self::Bearer if is_missing => ("Bearer", ""),
            Self::Bearer => ("Bearer", ", error=\"invalid_token\""),
            Self::Header(_) | Self::Query(_) => ("ApiKey", ""),
        };
        Refusal::Credentials { scheme, realm: None, parameters, is_missing }
    }
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer => f.write_str("header Authorization (Bearer)"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
        }
    }
}

/// Maximum length of an API key, in bytes. The policy refuses longer keys without computing a digest.
const KEY_BYTES_MAX: usize = 4096;
