//! Redirects to another URL.

use std::fmt;

use thruway_message::StatusCode;
use thruway_server::{Answer, Handler, Request, Response};

use crate::forward::Parameter;
use crate::{PathMatch, RoutePaths, RouteRegex};

/// A handler that responds to each request with a redirect.
///
/// ```
/// use thruway_gateway::{InvalidRedirect, Redirect};
/// use thruway_server::StatusCode;
///
/// let to_https = Redirect::new("https://{host}{path}{query}", StatusCode::PERMANENT_REDIRECT)?;
/// assert_eq!(Redirect::new("//{rest}", StatusCode::FOUND).unwrap_err(), InvalidRedirect::Start);
/// # let _ = to_https;
/// # Ok::<_, InvalidRedirect>(())
/// ```
#[derive(Clone, Debug)]
pub struct Redirect {
    status: StatusCode,
    /// The target in the config.
    text: String,
    /// The placeholders of the target, each with the text that precedes the placeholder.
    parts: Vec<(String, Placeholder)>,
    /// The text after the last placeholder.
    end: String,
    /// The expression of [`Placeholder::Group`], if the target has such a placeholder.
    groups: Option<RouteRegex>,
}

/// A placeholder for a part of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placeholder {
    /// `{host}`: the host that the client requested, without a port.
    Host,
    /// `{path}`: the path.
    Path,
    /// `{query}`: the query with its question mark, or an empty text if the request has no query.
    Query,
    /// `{rest}`: the part of the path after the prefix of the route. The value of `{rest}` begins with `/`
    /// or is empty.
    Rest,
    /// A parameter of the route's path pattern.
    Parameter(Parameter),
    /// A group of the route's regular expression for the path.
    Group(usize),
}

/// The reason why the config of a redirect is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRedirect {
    /// The braces `{` and `}` are not balanced.
    Braces,
    /// The target contains a character that is not allowed in a URI.
    Bytes,
    /// A parameter or group could become a part of the host.
    Host,
    /// The name of a placeholder is unknown.
    Placeholder,
    /// The target must begin with a scheme and a host, or with a path. A target is also invalid if the path
    /// or the query of a request could become its host.
    Start,
    /// The status is not a redirect to a single URL.
    Status,
}

impl Redirect {
    /// Returns a redirect to `to`, which begins with `https://`, `http://` or `/`. The gateway replaces the
    /// placeholders `{host}`, `{path}`, `{query}` and `{rest}` by parts of the request, as the client sent
    /// them. `{query}` includes the question mark, and is empty if the request has no query. `{rest}` is
    /// the part of the path after the prefix of the route.
    ///
    /// # Errors
    /// Returns an error if the target or the status is invalid.
    pub fn new(to: &str, status: StatusCode) -> Result<Self, InvalidRedirect> {
        Self::parsed(to, status, None)
    }

    /// Returns a redirect of a route with these paths. In addition to the placeholders of [`new`](Self::new), the target
    /// can contain the parameters of the route's path pattern and the groups of its regular expression, after the first
    /// slash behind the host.
    ///
    /// # Errors
    /// Returns an error if the target or the status is invalid.
    pub fn for_route(to: &str, status: StatusCode, paths: RoutePaths<'_>) -> Result<Self, InvalidRedirect> {
        Self::parsed(to, status, Some(paths))
    }

    fn parsed(to: &str, status: StatusCode, paths: Option<RoutePaths<'_>>) -> Result<Self, InvalidRedirect> {
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Err(InvalidRedirect::Status);
        }
        // Browsers read a backslash as a slash, and ignore a tab (WHATWG URL §4.4).
        if !to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(InvalidRedirect::Bytes);
        }
        let (mut parts, mut rest) = (Vec::new(), to);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').ok_or(InvalidRedirect::Braces)?;
            parts.push((
                literal(before)?,
                Placeholder::named(name, paths).ok_or(InvalidRedirect::Placeholder)?,
            ));
            rest = behind;
        }
        let has_groups = parts.iter().any(|(_, place)| matches!(place, Placeholder::Group(_)));
        let groups = paths.and_then(|paths| paths.regex).filter(|_| has_groups).cloned();
        let redirect = Self { status, text: to.to_owned(), parts, end: literal(rest)?, groups };
        if !redirect.has_safe_start() {
            return Err(InvalidRedirect::Start);
        }
        if redirect.has_fixed_host() { Ok(redirect) } else { Err(InvalidRedirect::Host) }
    }

    /// Returns `true` if no parameter and no group can become a part of the host: a slash behind the scheme
    /// precedes each of them.
    fn has_fixed_host(&self) -> bool {
        let mut is_in_path = false;
        self.parts.iter().enumerate().all(|(place, (before, placeholder))| {
            let scheme = before.find("://").filter(|_| place == 0).map_or(0, |at| at + "://".len());
            is_in_path |= before[scheme..].contains('/');
            is_in_path || !placeholder.is_free_text()
        })
    }

    /// Returns `true` if neither the path nor the query of a request can become the host of the redirect
    /// target.
    fn has_safe_start(&self) -> bool {
        let (start, place) = match self.parts.first() {
            Some((start, place)) => (start, Some(*place)),
            None => (&self.end, None),
        };
        let host = start.strip_prefix("https://").or_else(|| start.strip_prefix("http://"));
        match (host, place) {
            // If no text follows the scheme, the placeholder `{host}` must follow.
            (Some(""), place) => place == Some(Placeholder::Host),
            (Some(host), _) => !host.starts_with(['/', '?', '#']),
            (None, place) => match start.strip_prefix('/') {
                // A parameter or group rarely begins with a slash. `handle` refuses such a request.
                Some("") => place.is_none_or(Placeholder::is_free_text) || self.is_safe_behind_slash(),
                Some(path) => !path.starts_with('/'),
                None => false,
            },
        }
    }

    /// Returns `true` if no request can produce a target that begins with `//`. Call this method only if a
    /// placeholder follows the first slash of the target. For a request without a query, `{query}` becomes an
    /// empty text. The text after `{query}` then follows the first slash.
    fn is_safe_behind_slash(&self) -> bool {
        let queries = self.parts.iter().take_while(|(_, place)| *place == Placeholder::Query).count();
        // The text before the first placeholder is the slash itself.
        let before = self.parts.iter().take(queries + 1).skip(1).map(|(before, _)| before.as_str());
        let is_last = queries == self.parts.len();
        match before.chain(is_last.then_some(self.end.as_str())).find(|text| !text.is_empty()) {
            Some(text) => !text.starts_with('/'),
            None => is_last,
        }
    }

    /// Returns the value of `Location` for a request.
    fn location(&self, request: &Request<'_>) -> String {
        let head = request.head();
        let mut location = String::new();
        let groups = self.groups.as_ref().map(|regex| regex.groups_of(request.path())).unwrap_or_default();
        for (before, place) in &self.parts {
            location.push_str(before);
            match place {
                Placeholder::Host => location.push_str(head.authority().unwrap_or_default().host()),
                Placeholder::Path => location.push_str(head.target.path()),
                // This code does not use `mounted_path`, because `mounted_path` does not distinguish an empty
                // path from `/`.
                Placeholder::Rest => {
                    location.push_str(request.path().get(request.mount_prefix()..).unwrap_or_default());
                }
                Placeholder::Parameter(parameter) => {
                    location.push_str(parameter.of(request.path()).unwrap_or_default());
                }
                Placeholder::Group(group) => {
                    location.push_str(groups.get(*group).copied().unwrap_or_default());
                }
                Placeholder::Query => {
                    if let Some(query) = head.target.query() {
                        location.push('?');
                        location.push_str(query);
                    }
                }
            }
        }
        location.push_str(&self.end);
        location
    }
}

/// Returns `true` if a browser could read a path segment of `location` as the host. This happens if
/// `location` begins with two slashes (RFC 3986 §4.2), or if no host follows `http://` or `https://`.
/// Browsers ignore tabs, line breaks and leading spaces, and read a backslash as a slash (WHATWG URL §4.4).
pub(crate) fn has_hidden_host(location: &str) -> bool {
    let read = location.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'));
    let read = read.skip_while(|byte| *byte <= b' ').map(|byte| if byte == b'\\' { b'/' } else { byte });
    let start: Vec<u8> = read.take(LONGEST_START).collect();
    let behind_scheme = [&b"https://"[..], b"http://"].iter().find_map(|scheme| {
        let (start, behind) = start.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(behind)
    });
    match behind_scheme {
        Some(host) => matches!(host.first(), None | Some(b'/' | b'?' | b'#')),
        None => start.starts_with(b"//"),
    }
}

/// Number of bytes that [`has_hidden_host`] checks: the length of `https://`, and one more byte.
const LONGEST_START: usize = 9;

/// Returns `text` if it contains no closing brace.
fn literal(text: &str) -> Result<String, InvalidRedirect> {
    if text.contains('}') { Err(InvalidRedirect::Braces) } else { Ok(text.to_owned()) }
}

impl Placeholder {
    /// Returns `true` if the text can be any part of the path, so it can also begin with `.` or `@`.
    const fn is_free_text(self) -> bool {
        matches!(self, Self::Parameter(_) | Self::Group(_))
    }

    fn named(name: &str, paths: Option<RoutePaths<'_>>) -> Option<Self> {
        if let Some(PathMatch::Pattern(pattern)) = paths.map(|paths| paths.path)
            && let Some(parameter) = Parameter::named(name, pattern)
        {
            return Some(Self::Parameter(parameter));
        }
        if let Some(group) = paths.and_then(|paths| paths.regex).and_then(|regex| regex.group(name)) {
            return Some(Self::Group(group));
        }
        Some(match name {
            "host" => Self::Host,
            "path" => Self::Path,
            "query" => Self::Query,
            "rest" => Self::Rest,
            _ => return None,
        })
    }
}

impl Handler for Redirect {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let location = self.location(request);
        if has_hidden_host(&location) {
            let refusal =
                "cannot redirect this request: its path or host would change the host of the redirect\n";
            return Answer::Now(Response::text(refusal).with_status(StatusCode::BAD_REQUEST));
        }
        Answer::Now(Response::new(self.status).with_field("Location", location))
    }
}

/// Writes the template as configured.
impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.text, self.status)
    }
}

impl fmt::Display for InvalidRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Braces => "braces are not balanced: write a placeholder as `{path}`",
            Self::Bytes => {
                "a redirect target is a URI: visible ASCII without a backslash, the rest percent-encoded"
            }
            Self::Host => {
                "a parameter or group must not become a part of the host: write a `/` between them"
            }
            Self::Placeholder => "unknown placeholder: use `{host}`, `{path}`, `{query}` or `{rest}`",
            Self::Start => {
                "a redirect target is `https://HOST…`, `http://HOST…` or `/PATH…`; HOST is fixed text or `{host}`"
            }
            Self::Status => "the status of a redirect is 301, 302, 303, 307 or 308",
        })
    }
}

impl std::error::Error for InvalidRedirect {}

#[cfg(test)]
mod tests {
    use thruway_server::Router;
    use thruway_testkit::test_server::TestServer;

    use super::*;
    use crate::PathPattern;

    fn redirect(to: &str) -> Result<Redirect, InvalidRedirect> {
        Redirect::new(to, StatusCode::PERMANENT_REDIRECT)
    }

    fn location(to: &str, target: &str) -> String {
        let scene = TestServer::new(Router::new().mount("/old", redirect(to).unwrap()));
        let mut client = scene.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: example.com:8080\r\n\r\n"));
        let response = client.received();
        assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
        let location = response.split("\r\nLocation: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        location.unwrap().to_owned()
    }

    #[test]
    fn placeholders_are_filled_from_the_request() {
        for (to, target, expected) in [
            ("https://{host}{path}{query}", "/old/a%20b?c=d", "https://example.com/old/a%20b?c=d"),
            ("https://{host}{path}{query}", "/old", "https://example.com/old"),
            ("https://{host}/{query}x", "/old?", "https://example.com/?x"),
            ("/new{rest}{query}", "/old/a/b?c", "/new/a/b?c"),
            ("/new{rest}", "/old", "/new"),
            ("/new{rest}", "/old/", "/new/"),
            ("http://other/here", "/old/a?b", "http://other/here"),
            ("/{query}", "/old?a", "/?a"),
            ("/{query}", "/old", "/"),
            ("/{query}a{path}", "/old", "/a/old"),
            ("/{query}{query}a", "/old?b", "/?b?ba"),
        ] {
            assert_eq!(location(to, target), expected, "{to} {target}");
        }
    }

    #[test]
    fn parameters_and_groups_are_filled_from_the_path() {
        let (root, pattern) = (
            PathMatch::Prefix("/".to_owned()),
            PathMatch::Pattern(PathPattern::parse("/{lang}/{*rest}").unwrap()),
        );
        let regex = RouteRegex::parse("^/(?<lang>[^/]*)/(.*)$").unwrap();
        let by_regex = RoutePaths { path: &root, regex: Some(&regex) };
        for (paths, to, target, expected) in [
            (by_regex, "/{2}", "/old/a%2Fb", Some("/a%2Fb")),
            (by_regex, "https://{host}/{lang}/{2}{query}", "/old/x?y", Some("https://example.com/old/x?y")),
            (by_regex, "/{2}", "/old/%5Cevil.example", Some("/%5Cevil.example")),
            (by_regex, "/{2}/x", "/old/", None),
            (RoutePaths::from(&pattern), "/new/{rest}", "/old/a/b", Some("/new/a/b")),
            (RoutePaths::from(&pattern), "/{lang}", "/old/a/b", Some("/old")),
        ] {
            let redirect = Redirect::for_route(to, StatusCode::FOUND, paths).unwrap();
            let scene = TestServer::new(redirect);
            let mut client = scene.connect();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n\r\n"));
            let response = client.received();
            match expected {
                Some(expected) => {
                    assert!(response.contains(&format!("\r\nLocation: {expected}\r\n")), "{to}: {response}");
                }
                None => assert!(response.starts_with("HTTP/1.1 400 "), "{to}: {response}"),
            }
        }
        for (to, error) in [
            ("https://example.com{1}", InvalidRedirect::Host),
            ("https://example.com{rest}{1}", InvalidRedirect::Host),
            ("https://{host}{2}/", InvalidRedirect::Host),
            ("https://{host}?{2}", InvalidRedirect::Host),
            ("https://{1}", InvalidRedirect::Start),
            ("{1}", InvalidRedirect::Start),
            ("//{1}", InvalidRedirect::Start),
            ("/{3}", InvalidRedirect::Placeholder),
        ] {
            assert_eq!(Redirect::for_route(to, StatusCode::FOUND, by_regex).unwrap_err(), error, "{to}");
        }
    }

    /// Regression test: the template `/{query}{path}` was accepted. Without a query, the target then began
    /// with `//`, and the first segment of the path became the host.
    #[test]
    fn template_that_lets_request_choose_host_is_an_error() {
        for to in [
            "{path}",
            "/{path}",
            "/{rest}",
            "/{host}",
            "//{path}",
            "/{query}{path}",
            "/{query}{rest}",
            "/{query}{host}",
            "/{query}{query}{path}",
            "/{query}/a",
            "/{query}{query}/",
            "https://{path}",
            "https:///{path}",
            "https://{query}",
            "{rest}",
            "//other",
            "https://",
            "http:///other",
            "other",
            "",
        ] {
            assert_eq!(redirect(to).unwrap_err(), InvalidRedirect::Start, "{to}");
        }
        assert_eq!(location("/new{rest}", "/old//evil.example/"), "/new//evil.example/");
    }

    #[test]
    fn hidden_host_in_location_is_detected_in_every_spelling() {
        for hidden in [
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "/\t/evil.example",
            "/\r\n/evil.example",
            "\t//evil.example",
            " //evil.example",
            "\u{1}/\\evil.example",
            "https:///evil.example",
            "HTTPS:\\\\\\evil.example",
            "http://\t/evil.example",
            "https://",
            "https://?a",
        ] {
            assert!(has_hidden_host(hidden), "{hidden:?}");
        }
        for open in ["/", "/a//b", "/?//a", "/a\\b", "https://a", "https://a//b", "http://a?b", ""] {
            assert!(!has_hidden_host(open), "{open:?}");
        }
    }

    /// Regression test: only the template was checked. A request without a host got `Location:
    /// https:///evil.example/`, which browsers read as `https://evil.example/`.
    #[test]
    fn redirect_to_hidden_host_gets_400() {
        let unchecked = |to: &str| {
            let (before, _) = to.split_once('{').unwrap();
            let parts = vec![(before.to_owned(), Placeholder::Path)];
            Redirect {
                status: StatusCode::FOUND,
                text: to.to_owned(),
                parts,
                end: String::new(),
                groups: None,
            }
        };
        let by_host = || redirect("https://{host}{path}").unwrap();
        for (redirect, request) in [
            (unchecked("{path}"), "GET //evil.example/../old HTTP/1.1\r\nHost: a\r\n\r\n"),
            (unchecked("/{path}"), "GET /old HTTP/1.1\r\nHost: a\r\n\r\n"),
            (by_host(), "GET /evil.example/../old HTTP/1.0\r\n\r\n"),
            (by_host(), "GET /evil.example/../old HTTP/1.1\r\nHost:\r\n\r\n"),
        ] {
            let scene = TestServer::new(redirect);
            let mut client = scene.connect();
            client.send(request);
            let response = client.received();
            assert!(
                response.starts_with("HTTP/1.1 400 ") && !response.contains("Location"),
                "{request} {response}"
            );
        }
    }

    #[test]
    fn invalid_template_or_status_is_an_error() {
        for (to, error) in [
            ("/{where}", InvalidRedirect::Placeholder),
            ("/{path", InvalidRedirect::Braces),
            ("/path}", InvalidRedirect::Braces),
            ("/a b", InvalidRedirect::Bytes),
            ("/é", InvalidRedirect::Bytes),
            ("/a\r\nb", InvalidRedirect::Bytes),
            ("/\t/evil.example", InvalidRedirect::Bytes),
            ("/\\evil.example", InvalidRedirect::Bytes),
            ("https:\\\\evil.example", InvalidRedirect::Bytes),
        ] {
            assert_eq!(redirect(to).unwrap_err(), error, "{to}");
        }
        assert_eq!(Redirect::new("/a", StatusCode::OK).unwrap_err(), InvalidRedirect::Status);
    }

    #[test]
    fn display_matches_the_configured_text() {
        let text = "https://{host}/a{rest}{query}#b";
        assert_eq!(redirect(text).unwrap().to_string(), format!("{text} with 308"));
    }
}
