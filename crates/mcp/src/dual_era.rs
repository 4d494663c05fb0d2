//! Which era a message belongs to, on a server that speaks both.

use crate::params::Params;
use crate::schema::methods;
use crate::{Era, Revision};

/// The era of a request: modern if it says in which revision it is, as only modern ones do, or if its header does, or if
/// only the modern era has the method; legacy otherwise.
pub fn era_of(method: &str, params: &Params<'_>, header_version: Option<&str>) -> Era {
    let is_modern = params.meta.protocol_version.is_some()
        || header_version.and_then(|version| version.parse().ok()).is_some_and(is_modern)
        || matches!(method, methods::SERVER_DISCOVER | methods::SUBSCRIPTIONS_LISTEN);
    if is_modern { Era::Modern } else { Era::Legacy }
}

fn is_modern(revision: Revision) -> bool {
    revision.era() == Era::Modern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn era(method: &str, meta: &str, header_version: Option<&str>) -> Era {
        let text = alloc::format!(r#"{{"_meta":{meta}}}"#);
        let raw = serde_json::from_str(&text).unwrap();
        era_of(method, &Params::parse(Some(raw)).unwrap(), header_version)
    }

    #[test]
    fn a_modern_request_says_so_in_its_meta_or_header_or_is_one_of_its_own_methods() {
        let modern = r#"{"io.modelcontextprotocol/protocolVersion":"x"}"#;
        assert_eq!(era("initialize", modern, None), Era::Modern, "whatever the revision");
        assert_eq!(era("tools/list", "{}", Some("2026-07-28")), Era::Modern);
        assert_eq!(era("server/discover", "{}", None), Era::Modern);
        assert_eq!(era("subscriptions/listen", "{}", Some("2025-11-25")), Era::Modern);
    }

    #[test]
    fn any_other_request_is_legacy() {
        assert_eq!(era("initialize", "{}", None), Era::Legacy);
        assert_eq!(era("tools/list", "{}", Some("2025-11-25")), Era::Legacy);
        assert_eq!(
            era("tools/list", "{}", Some("2099-01-01")),
            Era::Legacy,
            "refused for its revision later"
        );
        let other = r#"{"io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}"#;
        assert_eq!(era("tools/call", other, Some("")), Era::Legacy);
        assert_eq!(era_of("ping", &Params::default(), None), Era::Legacy);
    }
}
