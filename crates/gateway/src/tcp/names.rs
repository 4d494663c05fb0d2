//! Which upstream a stream goes to, by the name of the server that its client asks for in TLS (SNI).

use std::collections::HashMap;
use std::sync::Arc;

use crate::upstream::Upstream;

/// Upstreams by the names of servers. Nothing is decrypted: the upstream's servers speak TLS with the client.
#[derive(Clone, Default, Debug)]
pub struct ServerNames {
    exact: HashMap<String, Arc<Upstream>>,
    /// By what stands behind `*.`, which is for all names below it.
    wildcard: HashMap<String, Arc<Upstream>>,
}

impl ServerNames {
    /// Has streams for `name` go to `upstream`: `a.example`, or `*.example` for all below it.
    pub fn add(&mut self, name: &str, upstream: Arc<Upstream>) {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("*.") {
            Some(parent) => self.wildcard.insert(parent.to_owned(), upstream),
            None => self.exact.insert(name, upstream),
        };
    }

    /// Whether there are none, so that nobody need be asked.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }

    /// Where streams for `name`, in lower case, go: the exact name first, then the longest wildcard.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<Upstream>> {
        let parents = std::iter::successors(name.split_once('.'), |(_, rest)| rest.split_once('.'));
        let mut wildcards = parents.filter_map(|(_, parent)| self.wildcard.get(parent));
        self.exact.get(name).or_else(|| wildcards.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UpstreamConfig;

    #[test]
    fn the_exact_name_comes_before_the_longest_wildcard() {
        let mut names = ServerNames::default();
        assert!(names.is_empty());
        for name in ["a.example", "*.example", "*.B.example"] {
            names.add(name, Arc::new(Upstream::new(UpstreamConfig::new(name, []))));
        }
        for (name, found) in [
            ("a.example", Some("a.example")),
            ("c.example", Some("*.example")),
            ("c.a.example", Some("*.example")),
            ("c.b.example", Some("*.B.example")),
            ("b.example", Some("*.example")),
            ("example", None),
            ("", None),
        ] {
            assert_eq!(names.find(name).map(|upstream| upstream.name()), found, "{name}");
        }
    }
}
