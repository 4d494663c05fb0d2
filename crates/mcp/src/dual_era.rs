//! Support for both eras on one server: the era of a request, and the methods of each era.

use crate::params::Params;
use crate::schema::methods;
use crate::{Era, Revision};

/// Returns the era of a request.
///
/// A request belongs to the modern era if its `_meta` names a revision, if its header names a modern
/// revision, or if only the modern era defines the method. All other requests belong to the legacy era.
pub fn era_of(method: &str, params: &Params<'_>, header_version: Option<&str>) -> Era {
    let is_modern = params.meta.protocol_version.is_some()
        || header_version.and_then(|version| version.parse().ok()).is_some_and(is_modern)
        || matches!(method, methods::SERVER_DISCOVER | methods::SUBSCRIPTIONS_LISTEN);
    if is_modern { Era::Modern } else { Era::Legacy }
}

/// Returns `false` if clients of `era` must not send requests with `method`.
///
/// MCP revision 2026-07-28 removed the handshake and all requests that change the state of a session (see its
/// changelog). A legacy server still handles such requests. If several clients share one connection to a
/// legacy server, they also share one session, so such a request from one client would affect the others. In
/// every revision, a method whose name begins with `notifications/` is a notification and has no `id`
/// (JSON-RPC 2.0 §4.1).
///
/// Returns `true` for a method that no revision defines, because an extension may define the method.
pub fn has_request(era: Era, method: &str) -> bool {
    let is_of_other_era = match era {
        Era::Modern => matches!(
            method,
            methods::INITIALIZE
                | methods::PING
                | methods::LOGGING_SET_LEVEL
                | methods::RESOURCES_SUBSCRIBE
                | methods::RESOURCES_UNSUBSCRIBE
                | methods::TASKS_LIST
                | methods::TASKS_RESULT
        ),
        Era::Legacy => {
            matches!(method, methods::SERVER_DISCOVER | methods::SUBSCRIPTIONS_LISTEN | methods::TASKS_UPDATE)
        }
    };
    !is_of_other_era && !method.starts_with("notifications/")
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
    fn modern_request_is_recognized_by_meta_header_or_method() {
        let modern = r#"{"io.modelcontextprotocol/protocolVersion":"x"}"#;
        assert_eq!(era("initialize", modern, None), Era::Modern, "independent of the revision");
        assert_eq!(era("tools/list", "{}", Some("2026-07-28")), Era::Modern);
        assert_eq!(era("server/discover", "{}", None), Era::Modern);
        assert_eq!(era("subscriptions/listen", "{}", Some("2025-11-25")), Era::Modern);
    }

    #[test]
    fn other_requests_are_legacy() {
        assert_eq!(era("initialize", "{}", None), Era::Legacy);
        assert_eq!(era("tools/list", "{}", Some("2025-11-25")), Era::Legacy);
        assert_eq!(
            era("tools/list", "{}", Some("2099-01-01")),
            Era::Legacy,
            "rejected later because of its revision"
        );
        let other = r#"{"io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}"#;
        assert_eq!(era("tools/call", other, Some("")), Era::Legacy);
        assert_eq!(era_of("ping", &Params::default(), None), Era::Legacy);
    }

    #[test]
    fn each_era_has_its_own_request_methods() {
        let eras = |method| [Era::Legacy, Era::Modern].map(|era| has_request(era, method));
        let legacy =
            ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
        for method in legacy.into_iter().chain(["tasks/list", "tasks/result"]) {
            assert_eq!(eras(method), [true, false], "{method}");
        }
        for method in ["server/discover", "subscriptions/listen", "tasks/update"] {
            assert_eq!(eras(method), [false, true], "{method}");
        }
        for method in
            ["tools/call", "resources/read", "tasks/get", "tasks/cancel", "custom/method", "notifications"]
        {
            assert_eq!(eras(method), [true, true], "{method}");
        }
        for method in ["notifications/cancelled", "notifications/initialized", "notifications/custom"] {
            assert_eq!(eras(method), [false, false], "{method}");
        }
    }
}
