//! Scopes: the permissions of a token (RFC 6749 §3.3).

use std::fmt;

/// A set of scopes, in their original order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Scopes(Vec<String>);

impl Scopes {
    /// Parses a list of scopes separated by spaces. Omits invalid scopes, and scopes beyond the maximum
    /// number.
    pub(super) fn parse(text: &str) -> Self {
        Self::of(text.split(' '))
    }

    pub(super) fn of<'s>(scopes: impl IntoIterator<Item = &'s str>) -> Self {
        let mut set = Self::default();
        scopes.into_iter().for_each(|scope| set.add(scope));
        set
    }

    /// Returns the union of both sets.
    pub(super) fn union(mut self, other: &Self) -> Self {
        other.0.iter().for_each(|scope| self.add(scope));
        self
    }

    pub(super) fn add(&mut self, scope: &str) {
        let is_valid = scope.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        let fits = !scope.is_empty() && scope.len() <= SCOPE_BYTES_MAX && self.0.len() < SCOPES_MAX;
        if is_valid && fits && !self.contains(scope) {
            self.0.push(scope.to_owned());
        }
    }

    pub(super) fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|one| one == scope)
    }

    pub(super) fn is_superset_of(&self, other: &Self) -> bool {
        other.0.iter().all(|scope| self.contains(scope))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Maximum number of scopes. Limits the size of the set if a server repeatedly demands other scopes.
const SCOPES_MAX: usize = 64;
const SCOPE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_deduplicated_and_limited() {
        let scopes = Scopes::parse("a  b a \"c\" d\\ \u{e9}");
        assert_eq!(scopes.to_string(), "a b");
        assert_eq!(scopes.clone().union(&Scopes::parse("c a")).to_string(), "a b c");
        assert!(scopes.is_superset_of(&Scopes::parse("b")) && !scopes.is_superset_of(&Scopes::parse("b c")));
        let many: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(Scopes::of(many.iter().map(String::as_str)).0.len(), SCOPES_MAX);
        assert!(Scopes::parse(&"x".repeat(SCOPE_BYTES_MAX + 1)).is_empty());
    }
}
