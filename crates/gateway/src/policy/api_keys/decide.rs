//! API keys in requests.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use thruway_message::RequestHead;

use crate::policy::credentials::{PresentedCredentials, authorization, only};
use crate::policy::refusal::Refusal;

/// Place of the key in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyPlace {
    /// `Authorization: Bearer KEY` (RFC 6750 §2.1).
    Bearer,
    /// A field of this name.
    Header(String),
    /// A parameter of the query. Access logs of other programs contain queries, so a field is safer.
    Query(String),
}

/// Key in a request.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Key<'r> {
    None,
    Shown(Cow<'r, [u8]>),
    /// Several keys, or one that is too long.
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
    /// Returns the refusal. A challenge is required (RFC 9110 §15.5.2), although no scheme is registered for
    /// keys outside of `Authorization`.
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

/// Maximum length of a key. Longer keys are refused without a digest.
const KEY_BYTES_MAX: usize = 4096;
