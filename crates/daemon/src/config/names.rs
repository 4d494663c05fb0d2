//! Names that the operator gives to routes and listeners, for references, logs, metrics and traces.

use std::collections::BTreeMap;

use super::resolver::Resolver;
use super::values::{Span, Spanned};

/// Returns `true` if `name` is a valid name: 1 to 64 ASCII letters, digits, `-`, `_` and `.`. Such a name needs
/// no escaping in logs, metrics and URLs. It differs from all descriptions of requests, because these contain
/// a `/`.
pub(super) fn is_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_valid)
}

/// The names of all objects of one kind, each with its position in the file.
pub(super) struct UniqueNames {
    /// The kind of the objects, such as `route`.
    kind: &'static str,
    known: BTreeMap<String, Span>,
}

impl UniqueNames {
    pub(super) const fn of(kind: &'static str) -> Self {
        Self { kind, known: BTreeMap::new() }
    }

    /// Returns a valid name that no earlier object has. Otherwise, adds an error and returns `None`.
    pub(super) fn resolve(
        &mut self,
        resolver: &mut Resolver<'_>,
        raw: Option<Spanned<String>>,
    ) -> Option<String> {
        let (raw, kind) = (raw?, self.kind);
        let (name, span) = (raw.get_ref(), raw.span());
        if !is_name(name) {
            let message = format!("`{}` is not a valid name", name.escape_debug());
            resolver.refuse_with(&raw, message, NAME_HINT);
            return None;
        }
        if let Some(other) = self.known.get(name) {
            let message = format!("another {kind} has the name `{name}`");
            let label = format!("the other {kind}");
            let failure = resolver.source.failure_between(&span, &message, other, &label);
            resolver.failures.push(failure.with_hint(format!("give each {kind} its own name")));
            return None;
        }
        self.known.insert(name.clone(), span);
        Some(raw.into_inner())
    }
}

/// Hint for an invalid name.
pub(super) const NAME_HINT: &str =
    "a name has 1 to 64 characters: letters from `a` to `z` and `A` to `Z`, digits, `-`, `_` and `.`";

const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_a_bounded_length_and_harmless_characters() {
        for name in ["a", "API-v2", "a.b_c", "0", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", " ", "a b", "a/b", "a\"", "a\n", "\u{e4}", "{a}", "a,b", &"a".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
