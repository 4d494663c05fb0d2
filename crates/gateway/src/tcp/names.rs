//! Selects the upstream of a stream by the server name in the client's TLS handshake (SNI).

use std::collections::HashMap;
use std::sync::Arc;

use crate::upstream::Upstream;

/// Upstreams by TLS server name. The gateway does not decrypt the streams: the client and the upstream server
/// perform the TLS handshake with each other.
#[derive(Clone, Default, Debug)]
pub struct ServerNames {
    exact: HashMap<String, Arc<Upstream>>,
    /// Upstreams for wildcard names. The key is the domain after `*.`. A wildcard matches all subdomains of
    /// this domain.
    wildcard: HashMap<String, Arc<Upstream>>,
}

impl ServerNames {
    /// Adds `upstream` for streams with the server name `name`: `a.example`, or `*.example` for all names
    /// below `example`.
    pub fn add(&mut self, name: &str, upstream: Arc<Upstream>) {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("*.") {
            Some(parent) => self.wildcard.insert(parent.to_owned(), upstream),
            None => self.exact.insert(name, upstream),
        };
    }

    /// Returns `true` if there are no names. The gateway then does not read the server name that the client
    /// sends.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }

    /// Returns the upstream for `name`, which must be in lower case. An exact name has priority, then the
    /// longest wildcard.
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
    fn exact_name_wins_over_longest_wildcard() {
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
