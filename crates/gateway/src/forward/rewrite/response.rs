//! Applies the configured changes to the response to a request.

use std::sync::Arc;

use thruway_server::{Request, Response};

use super::super::config::ForwardConfig;
use super::super::request_id::RequestId;
use crate::redirect::has_hidden_host;
use crate::routes::normalized_path;

/// Changes to the response to one request. The gateway replaces the placeholders before it forwards the
/// request, because the request no longer exists when the response arrives.
#[derive(Debug)]
pub(in super::super) struct ResponseRewrite {
    config: Arc<ForwardConfig>,
    /// Values of the headers to set and add.
    values: Vec<String>,
    place: Option<RouteLocation>,
}

/// Address of the route as the client sees it, for rewriting `Location`.
#[derive(PartialEq, Eq, Debug)]
struct RouteLocation {
    /// Path prefix of the route in the client's request.
    prefix: String,
    /// The host that the client requested, with its port.
    host: String,
}

impl ResponseRewrite {
    /// Returns the changes to the response to `request`. Returns `None` if no changes are configured.
    pub(in super::super) fn of(
        config: &Arc<ForwardConfig>,
        request: &Request<'_>,
        id: &RequestId,
    ) -> Option<Box<Self>> {
        let rewrite = &config.rewrite;
        if !rewrite.is_about_responses() {
            return None;
        }
        let values = rewrite.response.lines.iter().map(|(_, value)| value.fill(request, id)).collect();
        let place = rewrite
            .reverses_location()
            .then(|| RouteLocation { prefix: prefix_of(request), host: request.host().to_owned() });
        Some(Box::new(Self { config: config.clone(), values, place }))
    }

    /// Applies the changes to `response`.
    pub(in super::super) fn apply(&self, response: &mut Response) {
        if let Some(place) = &self.place {
            self.apply_place(place, response);
        }
        let fields = &self.config.rewrite.response;
        fields.dropped.iter().for_each(|name| response.remove_field(name));
        for ((name, _), value) in fields.lines.iter().zip(&self.values) {
            // If text from the client makes the value invalid, the response does not get this header.
            let _ = response.append_field(name, value);
        }
    }

    fn apply_place(&self, place: &RouteLocation, response: &mut Response) {
        let path = self.config.rewrite.path.as_ref();
        let Some(replaced) = path.and_then(|path| path.replaced_prefix()) else { return };
        let location = response.field("location").and_then(|value| value.as_str());
        if let Some(location) = location.and_then(|location| place.location(location, replaced)) {
            let _ = response.set_field("Location", location);
        }
    }
}

/// Returns the part of the request path that matches the prefix of the route, in normalized form. The form
/// that the client sent would be unsafe in `Location`: a browser reads `//a.example/../api` as a path on the
/// host `a.example`.
fn prefix_of(request: &Request<'_>) -> String {
    let sent = request.path().get(..request.mount_prefix()).unwrap_or_default();
    normalized_path(sent).unwrap_or_default()
}

impl RouteLocation {
    /// Translates `location`, a URL of the upstream, to the URL that the client must request. `replaced` is
    /// the path prefix at the upstream that replaces the prefix of the route. Returns `None` if the URL is on
    /// another host or not below `replaced`. Also returns `None` if the translated URL begins with two
    /// slashes, because a browser would read the next segment as a host. For example, `/v2//host` becomes
    /// `//host` if `/v2` is removed.
    fn location(&self, location: &str, replaced: &str) -> Option<String> {
        let (origin, path) = self.split(location)?;
        let rest = path.strip_prefix(replaced)?;
        let is_below = rest.is_empty() || rest.starts_with(['/', '?', '#']);
        is_below.then(|| format!("{origin}{}{rest}", self.prefix)).filter(|found| !has_hidden_host(found))
    }

    /// Splits `location` into the part before its path and the path. Returns `None` if `location` is not on
    /// the host of the client's request.
    fn split<'l>(&self, location: &'l str) -> Option<(&'l str, &'l str)> {
        if location.starts_with('/') {
            return (!location.starts_with("//")).then_some(("", location));
        }
        let behind = location.strip_prefix("http://").or_else(|| location.strip_prefix("https://"))?;
        let length = behind.find(['/', '?', '#']).unwrap_or(behind.len());
        let is_own = behind[..length].eq_ignore_ascii_case(&self.host);
        is_own.then(|| location.split_at(location.len() - behind.len() + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: without `/v2`, the `Location` `/v2//evil.example/` became `//evil.example/`. Browsers
    /// read this `Location` as the host `evil.example`.
    #[test]
    fn location_rewrite_never_turns_a_path_into_a_host() {
        let place = RouteLocation { prefix: String::new(), host: "a.example".to_owned() };
        for location in ["/v2//evil.example/", "/v2/\\evil.example", "/v2/\t/evil.example"] {
            assert_eq!(place.location(location, "/v2"), None, "{location}");
        }
        let absolute = place.location("http://a.example/v2//b", "/v2");
        assert_eq!(absolute.as_deref(), Some("http://a.example//b"));
    }

    #[test]
    fn location_below_replaced_prefix_gets_route_prefix() {
        let place = RouteLocation { prefix: "/api".to_owned(), host: "a.example:81".to_owned() };
        for (replaced, location, expected) in [
            ("", "/b", Some("/api/b")),
            ("", "/", Some("/api/")),
            ("/v2", "/v2/b?c#d", Some("/api/b?c#d")),
            ("/v2", "/v2", Some("/api")),
            ("/v2", "/v2?a", Some("/api?a")),
            ("/v2", "/v20", None),
            ("/v2", "/other", None),
            ("", "//other.example/b", None),
            ("", "b", None),
            ("", "http://A.example:81/b", Some("http://A.example:81/api/b")),
            ("", "https://a.example:81", Some("https://a.example:81/api")),
            ("", "https://other.example/b", None),
            ("", "https://a.example:81@other.example/b", None),
            ("", "ftp://a.example:81/b", None),
        ] {
            assert_eq!(place.location(location, replaced).as_deref(), expected, "{replaced} {location}");
        }
    }
}
