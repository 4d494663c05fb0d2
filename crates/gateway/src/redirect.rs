//! Redirects to another URL.

use std::fmt;

use thruway_message::{RequestHead, StatusCode};
use thruway_server::{Answer, Handler, Request, Response};

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
    /// The placeholders of the target, each with the text that precedes the placeholder.
    parts: Vec<(String, Placeholder)>,
    /// The text after the last placeholder.
    end: String,
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
}

/// The reason why the config of a redirect is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRedirect {
    /// The braces `{` and `}` are not balanced.
    Braces,
    /// The target contains a character that is not allowed in a URI.
    Bytes,
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
            parts.push((literal(before)?, Placeholder::named(name).ok_or(InvalidRedirect::Placeholder)?));
            rest = behind;
        }
        let redirect = Self { status, parts, end: literal(rest)? };
        if redirect.has_safe_start() { Ok(redirect) } else { Err(InvalidRedirect::Start) }
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
                Some("") => place.is_none() || self.is_safe_behind_slash(),
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

    /// Returns the value of `Location` for a request. `rest` is the part of the request path after the
    /// prefix of the route.
    fn location(&self, head: &RequestHead<'_>, rest: &str) -> String {
        let mut location = String::new();
        for (before, place) in &self.parts {
            location.push_str(before);
            match place {
                Placeholder::Host => location.push_str(head.authority().unwrap_or_default().host()),
                Placeholder::Path => location.push_str(head.target.path()),
                Placeholder::Rest => location.push_str(rest),
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
    fn named(name: &str) -> Option<Self> {
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
        // This code does not use `mounted_path`, because `mounted_path` does not distinguish an empty path
        // from `/`.
        let rest = request.path().get(request.mount_prefix()..).unwrap_or_default();
        let location = self.location(request.head(), rest);
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
        for (before, place) in &self.parts {
            let name = match place {
                Placeholder::Host => "host",
                Placeholder::Path => "path",
                Placeholder::Query => "query",
                Placeholder::Rest => "rest",
            };
            write!(f, "{before}{{{name}}}")?;
        }
        write!(f, "{} with {}", self.end, self.status)
    }
}

impl fmt::Display for InvalidRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Braces => "braces are not balanced: write a placeholder as `{path}`",
            Self::Bytes => {
                "a redirect target is a URI: visible ASCII without a backslash, the rest percent-encoded"
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
            Redirect { status: StatusCode::FOUND, parts, end: String::new() }
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
