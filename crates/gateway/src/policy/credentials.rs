//! Credentials in requests and in config files, and the digests for comparing credentials.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use thruway_message::{FieldLines, Method, RequestHead};
use thruway_net::random_bytes;
use thruway_server::FieldValue;

/// The credentials that a request contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PresentedCredentials<'r> {
    /// No credentials of this kind.
    None,
    /// Exactly one value.
    One(&'r [u8]),
    /// Several values. Such a request is ambiguous, because another server could accept a different value
    /// than this gateway.
    Several,
}

/// An invalid line in a file with credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidLine<E> {
    /// Line number. The first line has the number 1.
    pub line: usize,
    /// The error in the value. `None` if the line does not have the form `NAME:VALUE`.
    pub error: Option<E>,
}

/// Returns the credentials that follow the authentication scheme `scheme` in the header `Authorization`. The
/// case of the scheme does not matter (RFC 9110 §11.6.2). For CONNECT, reads `Proxy-Authorization` instead.
/// In a CONNECT request, `Authorization` is for the server at the other end of the tunnel (§11.7.2).
pub(super) fn authorization<'r>(head: &RequestHead<'r>, scheme: &str) -> PresentedCredentials<'r> {
    let name = if head.method == Method::Connect { "proxy-authorization" } else { "authorization" };
    match only(head.field_lines, name) {
        PresentedCredentials::One(value) => match value.split_at_checked(scheme.len()) {
            Some((name, rest)) if name.eq_ignore_ascii_case(scheme.as_bytes()) && rest.starts_with(b" ") => {
                PresentedCredentials::One(rest.trim_ascii_start())
            }
            _ => PresentedCredentials::None,
        },
        other => other,
    }
}

/// Returns the value of the header `name` as credentials. Several lines of this header are ambiguous.
pub(super) fn only<'r>(field_lines: FieldLines<'r>, name: &str) -> PresentedCredentials<'r> {
    let mut values = field_lines.all(name);
    match (values.next(), values.next()) {
        (None, _) => PresentedCredentials::None,
        (Some(value), None) => PresentedCredentials::One(value.as_bytes()),
        (Some(_), Some(_)) => PresentedCredentials::Several,
    }
}

/// Returns `true` if `name` can be sent as a header value without a change of meaning.
pub fn is_user_name(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && FieldValue::new(name.as_bytes()).is_ok()
}

/// Parses the lines of `text`, which have the form `NAME:VALUE`. Skips empty lines and lines that begin
/// with `#`.
///
/// # Errors
/// Returns an error with the number of the first invalid line. A line is invalid if it has another form, or
/// if `parse` rejects its value.
pub fn lines_of<T, E>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<(String, T)>, InvalidLine<E>> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let invalid = |error| InvalidLine { line: number + 1, error };
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(None))?;
        if !is_user_name(name) {
            return Err(invalid(None));
        }
        all.push((name.to_owned(), parse(value).map_err(|error| invalid(Some(error)))?));
    }
    Ok(all)
}

/// A secret key for computing digests. Clients do not know the key, so the time of a comparison reveals
/// nothing to them.
pub(super) struct DigestKey(Hmac<Sha256>);

pub(super) type Digest = [u8; 32];

impl DigestKey {
    /// Returns a new random key.
    ///
    /// # Panics
    /// Panics if [`random_bytes`] panics.
    pub(super) fn random() -> Self {
        Self(Hmac::new(&random_bytes::<64>().into()))
    }

    /// Returns the digest of `parts`. The digest also depends on the length of each part.
    pub(super) fn digest(&self, parts: &[&[u8]]) -> Digest {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_file_has_a_name_and_a_value_per_line() {
        let read =
            |text: &str| lines_of(text, |value| if value == "bad" { Err(()) } else { Ok(value.len()) });
        let lines = read("# users\n\n a:$2y$:x \r\nb:\n").unwrap();
        assert_eq!(lines, [("a".to_owned(), 6), ("b".to_owned(), 0)]);
        assert_eq!(read("a:b\nc"), Err(InvalidLine { line: 2, error: None }));
        assert_eq!(read(":b"), Err(InvalidLine { line: 1, error: None }));
        assert_eq!(read("\na:bad"), Err(InvalidLine { line: 2, error: Some(()) }));
    }

    #[test]
    fn ambiguous_user_names_are_invalid() {
        assert!(is_user_name("Ærøskøbing Andersen"));
        for name in ["", " admin", "admin\t", "a\nb", "a\u{0}"] {
            assert!(!is_user_name(name), "{name:?}");
        }
    }

    #[test]
    fn digest_depends_on_part_boundaries_and_key() {
        let [key, other] = [DigestKey::random(), DigestKey::random()];
        assert_eq!(key.digest(&[b"ab", b"c"]), key.digest(&[b"ab", b"c"]));
        assert_ne!(key.digest(&[b"ab", b"c"]), key.digest(&[b"a", b"bc"]));
        assert_ne!(key.digest(&[b"a"]), other.digest(&[b"a"]));
    }
}
