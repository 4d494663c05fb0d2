//! Parsing of `WWW-Authenticate` (RFC 9110 §11.6.1, RFC 6750 §3, RFC 9728 §5.1).

use thruway_message::FieldLines;

use super::scopes::Scopes;

/// The parts of a challenge that the client uses.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Challenge {
    /// `true` if the token must be bound to a key (RFC 9449 §7.1).
    pub(super) is_dpop: bool,
    pub(super) error: Option<String>,
    pub(super) scopes: Option<Scopes>,
    pub(super) resource_metadata: Option<String>,
}

impl Challenge {
    /// Returns the challenge in the header section of a response. If the server offers several challenges,
    /// prefers a challenge for tokens that are bound to a key (DPoP).
    pub(crate) fn of(fields: FieldLines<'_>) -> Self {
        let values = fields.all("www-authenticate").filter_map(|value| value.as_str());
        let mut challenges: Vec<_> = values.flat_map(parse).collect();
        let place = challenges.iter().position(|challenge| challenge.is_dpop).unwrap_or(0);
        if challenges.is_empty() { Self::default() } else { challenges.swap_remove(place) }
    }

    pub(super) fn is_error(&self, error: &str) -> bool {
        self.error.as_deref() == Some(error)
    }

    fn add(&mut self, name: &str, value: String) {
        // If a parameter occurs several times, the first value counts.
        match name.to_ascii_lowercase().as_str() {
            "error" => _ = self.error.get_or_insert(value),
            "scope" => _ = self.scopes.get_or_insert_with(|| Scopes::parse(&value)),
            "resource_metadata" => _ = self.resource_metadata.get_or_insert(value),
            _ => {}
        }
    }
}

/// Parses the challenges with the scheme `Bearer` or `DPoP`. Skips other schemes and malformed parts.
fn parse(value: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut is_understood = false;
    let mut cursor = Cursor(value);
    loop {
        cursor.skip(|byte| matches!(byte, b' ' | b'\t' | b','));
        if cursor.0.is_empty() {
            return challenges;
        }
        let token = cursor.take(is_token);
        cursor.skip(is_space);
        if token.is_empty() {
            cursor.skip(|byte| byte != b',');
        } else if cursor.0.starts_with('=') {
            cursor.skip(|byte| byte == b'=');
            cursor.skip(is_space);
            let value = cursor.value();
            if let Some(challenge) = challenges.last_mut().filter(|_| is_understood) {
                challenge.add(token, value);
            }
        } else {
            let is_dpop = token.eq_ignore_ascii_case("dpop");
            is_understood = is_dpop || token.eq_ignore_ascii_case("bearer");
            if is_understood {
                challenges.push(Challenge { is_dpop, ..Challenge::default() });
            }
        }
    }
}

struct Cursor<'v>(&'v str);

impl<'v> Cursor<'v> {
    fn take(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'v str {
        let end = self.0.bytes().position(|byte| !is_wanted(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(self.0.floor_char_boundary(end));
        self.0 = rest;
        taken
    }

    fn skip(&mut self, is_unwanted: impl Fn(u8) -> bool) {
        self.take(is_unwanted);
    }

    /// Parses a token or a quoted string (RFC 9110 §5.6.4).
    fn value(&mut self) -> String {
        let Some(rest) = self.0.strip_prefix('"') else { return self.take(is_token).to_owned() };
        let mut value = String::new();
        let mut characters = rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.0 = &rest[at + 1..];
                    return value;
                }
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                character => value.push(character),
            }
        }
        // A quoted string without its end is invalid.
        self.0 = "";
        String::new()
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// `true` for a character of a token (RFC 9110 §5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed_in_all_notations() {
        for value in [
            "Bearer error=\"insufficient_scope\", scope=\"a b\", resource_metadata=\"https://a/\"",
            "bearer ERROR=insufficient_scope,,scope = \"a b\" ,resource_metadata=\"https:\\/\\/a/\", error=other",
            "Basic realm=\"x, Bearer error=\\\"no\\\"\", Negotiate abc==, Bearer scope=\"a b\", error=insufficient_scope, \
             resource_metadata=\"https://a/\"",
            "Negotiate a/b+c==, Bearer error=insufficient_scope, scope=\"a b\", resource_metadata=\"https://a/\", \
             Basic error=other, scope=c",
        ] {
            let [challenge] = &parse(value)[..] else { panic!("one challenge in {value}") };
            assert!(challenge.is_error("insufficient_scope") && !challenge.is_dpop, "{value}");
            assert_eq!(challenge.scopes, Some(Scopes::parse("a b")), "{value}");
            assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a/"), "{value}");
        }
        let both = parse("Bearer scope=a, DPoP error=\"use_dpop_nonce\", algs=\"ES256\"");
        assert!(both.len() == 2 && both[1].is_dpop && both[1].is_error("use_dpop_nonce"));
    }

    #[test]
    fn malformed_challenges_are_ignored() {
        for value in
            ["", ",", "=", "\"", "Bearer", "Bearer =", "Bearer a=\"", "error=x", "é", "Bearer é=é, \u{7f}"]
        {
            assert!(parse(value).iter().all(|challenge| challenge.error.is_none()), "{value}");
        }
    }
}
