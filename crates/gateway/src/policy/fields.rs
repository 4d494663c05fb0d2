//! Request headers that only policies may set. The gateway removes these headers from client requests.
//! In these headers, the gateway sends verified values to the upstream server.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};
use thruway_message::{FieldLine, FieldLineSpan, FieldLines, RequestHead, list};

use crate::forward::read_alike;

/// Properties of a client that a policy has verified.
#[derive(Default)]
pub(super) struct VerifiedFacts<'p> {
    /// The header fields that the policy owns, with their values.
    pub(super) fields: Vec<OwnedField<'p>>,
    /// The name of the verified user. `None` if the user has no name, or if it is the claim `sub`.
    pub(super) user: Option<Cow<'p, str>>,
    /// The claims of the verified token. Empty if the user has no token.
    pub(super) claims: Map<String, Value>,
    /// Start of the names of cookies that the gateway removes from the request. `None` removes no cookies.
    pub(super) withheld_cookies: Option<&'static str>,
}

/// A client that a policy has verified. If [`Guarded::identified`](super::Guarded::identified) is set, the
/// extensions of a request contain an `Arc<VerifiedClient>`.
#[derive(Clone, PartialEq, Debug)]
pub struct VerifiedClient {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// The name of the user: the user name of a password or of an API key, or the claim `sub` of a token.
    /// `None` if a token has no such claim.
    pub user: Option<String>,
    /// The claims of the token. Empty if the policy verifies passwords or API keys.
    pub claims: Map<String, Value>,
}

/// The name of a header field that a policy owns, and the value of the field. If the value is `None`, the
/// gateway removes the field from the request.
pub(super) type OwnedField<'p> = (&'p str, Option<Cow<'p, [u8]>>);

/// A header section that a policy has changed.
pub(super) struct EditedFields {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

impl EditedFields {
    /// Applies the header changes in `facts` to `field_lines`, and returns the result. Returns `None` if no
    /// header changes.
    pub(super) fn of(field_lines: FieldLines<'_>, facts: &VerifiedFacts<'_>) -> Option<Self> {
        let has_values = facts.fields.iter().any(|(_, value)| value.is_some());
        if !has_values
            && facts.withheld_cookies.is_none()
            && !field_lines.iter().any(|line| facts.owns(line.name.as_bytes()))
        {
            return None;
        }
        let capacity = field_lines.bytes().len() + 128;
        let mut edited =
            Self { bytes: Vec::with_capacity(capacity), spans: Vec::with_capacity(field_lines.len() + 4) };
        for line in field_lines.iter().filter(|line| !facts.owns(line.name.as_bytes())) {
            edited.append_line(line, facts);
        }
        for (name, value) in &facts.fields {
            if let Some(value) = value {
                edited.append(name.as_bytes(), value);
            }
        }
        Some(edited)
    }

    /// Returns a header section without lines. `capacity` is its expected size in bytes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), spans: Vec::new() }
    }

    /// Returns `head` with the changed header section.
    pub(super) fn head<'e>(&'e self, head: RequestHead<'e>) -> RequestHead<'e> {
        RequestHead { field_lines: FieldLines::from_parsed(&self.bytes, &self.spans), ..head }
    }

    /// Appends a header line of the client. Removes the names of headers that the policy owns from
    /// `Connection`. Otherwise, a proxy behind the gateway would drop these headers (RFC 9110 §7.6.1).
    fn append_line(&mut self, line: FieldLine<'_>, facts: &VerifiedFacts<'_>) {
        let value = line.value.as_bytes();
        if let Some(prefix) = facts.withheld_cookies
            && line.name.is("cookie")
        {
            let kept = kept_cookies(value, prefix);
            if !kept.is_empty() {
                self.append(line.name.as_bytes(), &kept.join(&b"; "[..]));
            }
            return;
        }
        if !line.name.is("connection") || !list::members(value).any(|option| facts.owns(option)) {
            return self.append(line.name.as_bytes(), value);
        }
        let options: Vec<_> = list::members(value).filter(|option| !facts.owns(option)).collect();
        self.append(line.name.as_bytes(), &options.join(&b", "[..]));
    }

    #[expect(clippy::cast_possible_truncation, reason = "a header section has less than 1 MiB")]
    pub(super) fn append(&mut self, name: &[u8], value: &[u8]) {
        let name_start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        let value_start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        let value_end = self.bytes.len() as u32;
        self.spans.push(FieldLineSpan { name_start, name_end: value_start, value_start, value_end });
    }
}

/// Returns the cookies of a header line whose names do not start with `prefix`.
fn kept_cookies<'v>(value: &'v [u8], prefix: &str) -> Vec<&'v [u8]> {
    let cookies = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    cookies.filter(|cookie| !cookie.is_empty() && !cookie.starts_with(prefix.as_bytes())).collect()
}

impl VerifiedFacts<'_> {
    /// Returns the name of the user.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref().or_else(|| self.claims.get("sub").and_then(Value::as_str))
    }

    fn owns(&self, name: &[u8]) -> bool {
        let is_own = |own: &str| read_alike(name, own.as_bytes());
        self.fields.iter().any(|(own, _)| own.len() == name.len() && is_own(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(lines: &[(&str, &str)], facts: &VerifiedFacts<'_>) -> Option<Vec<String>> {
        let mut all = EditedFields { bytes: Vec::new(), spans: Vec::new() };
        for (name, value) in lines {
            all.append(name.as_bytes(), value.as_bytes());
        }
        let edited = EditedFields::of(FieldLines::from_parsed(&all.bytes, &all.spans), facts)?;
        let lines = FieldLines::from_parsed(&edited.bytes, &edited.spans);
        Some(lines.iter().map(|line| format!("{}: {}", line.name, line.value)).collect())
    }

    fn user(name: Option<&'static str>) -> VerifiedFacts<'static> {
        VerifiedFacts {
            fields: vec![("X-User", name.map(|name| Cow::Borrowed(name.as_bytes())))],
            ..VerifiedFacts::default()
        }
    }

    #[test]
    fn identity_headers_of_client_are_replaced() {
        let lines = [("Host", "a"), ("x-user", "root"), ("X_User", "root"), ("X-Users", "b")];
        assert_eq!(edited(&lines, &user(Some("eve"))).unwrap(), ["Host: a", "X-Users: b", "X-User: eve"]);
        assert_eq!(edited(&lines, &user(None)).unwrap(), ["Host: a", "X-Users: b"]);
        assert_eq!(edited(&[("Host", "a")], &user(None)), None);
        let with_underscore = VerifiedFacts {
            fields: vec![("X_User", Some(Cow::Borrowed(&b"eve"[..])))],
            ..VerifiedFacts::default()
        };
        assert_eq!(
            edited(&[("X-User", "root"), ("x_user", "root")], &with_underscore).unwrap(),
            ["X_User: eve"]
        );
    }

    #[test]
    fn values_need_not_be_utf8() {
        let facts = VerifiedFacts {
            fields: vec![("X-User", Some(Cow::Borrowed(&b"J\xf6rg"[..])))],
            ..VerifiedFacts::default()
        };
        let edited = EditedFields::of(FieldLines::from_parsed(b"", &[]), &facts).unwrap();
        assert_eq!(edited.bytes, b"X-UserJ\xf6rg");
    }

    #[test]
    fn withheld_cookies_are_removed() {
        let facts = VerifiedFacts { withheld_cookies: Some("__Host-own-"), ..VerifiedFacts::default() };
        let lines =
            [("Cookie", "a=b; __Host-own-1=x;c=d"), ("cookie", "__Host-own-2=y"), ("Cookie", "__Host-ow=z")];
        assert_eq!(edited(&lines, &facts).unwrap(), ["Cookie: a=b; c=d", "Cookie: __Host-ow=z"]);
    }

    #[test]
    fn client_cannot_remove_identity_header_with_connection_option() {
        let lines = [("Connection", "close, x-USER,  te"), ("Connection", "X_User")];
        assert_eq!(
            edited(&lines, &user(Some("eve"))).unwrap(),
            ["Connection: close, te", "Connection: ", "X-User: eve"]
        );
    }
}
