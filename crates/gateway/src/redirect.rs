//! Redirects: clients are told to ask elsewhere.

use std::fmt;

use thruway_message::{FieldValue, RequestHead, StatusCode};
use thruway_server::{Answer, Handler, Request, Response};

/// Answers every request with another place to ask at.
#[derive(Clone, Debug)]
pub struct Redirect {
    status: StatusCode,
    /// What stands before each place, and the place.
    parts: Vec<(String, Place)>,
    /// What stands behind the last place.
    end: String,
}

/// What is put in from the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// `{host}`: the host, without a port.
    Host,
    /// `{path}`: the path.
    Path,
    /// `{query}`: the query with its question mark; nothing without one.
    Query,
    /// `{rest}`: what comes after the prefix of the route. It begins with `/`, or is empty.
    Rest,
}

/// Why nothing can be redirected so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRedirect {
    /// `{` and `}` do not match.
    Braces,
    /// It cannot stand in a field line.
    Octets,
    /// A place has another name than those there are.
    Place,
    /// It begins neither with a scheme and a host nor with a path, or a request could choose the host.
    Start,
    /// The status is none that redirects to one place.
    Status,
}

impl Redirect {
    /// Redirects to `to`: `https://…`, `http://…` or `/…`, in which `{host}`, `{path}`, `{query}` and `{rest}` are put in
    /// from the request, as the client sent them. `{query}` has its question mark, if there is a query; `{rest}` is what
    /// comes after the prefix of the route.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn new(to: &str, status: StatusCode) -> Result<Self, InvalidRedirect> {
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Err(InvalidRedirect::Status);
        }
        if FieldValue::new(to.as_bytes()).is_err() || !to.is_ascii() || to.contains(' ') {
            return Err(InvalidRedirect::Octets);
        }
        let (mut parts, mut rest) = (Vec::new(), to);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').ok_or(InvalidRedirect::Braces)?;
            parts.push((literal(before)?, Place::named(name).ok_or(InvalidRedirect::Place)?));
            rest = behind;
        }
        let redirect = Self { status, parts, end: literal(rest)? };
        if redirect.has_safe_start() { Ok(redirect) } else { Err(InvalidRedirect::Start) }
    }

    /// Whether no path of a request can become the host: `//host` names one too.
    fn has_safe_start(&self) -> bool {
        let (start, place) = match self.parts.first() {
            Some((start, place)) => (start, Some(*place)),
            None => (&self.end, None),
        };
        let host = start.strip_prefix("https://").or_else(|| start.strip_prefix("http://"));
        match (host, place) {
            // A host must follow, and may be that of the request.
            (Some(""), place) => place == Some(Place::Host),
            (Some(_), _) => true,
            (None, None) => start.starts_with('/') && !start.starts_with("//"),
            (None, Some(Place::Query)) if start == "/" => true,
            (None, Some(_)) => start.starts_with('/') && !start.starts_with("//") && start.len() > 1,
        }
    }

    fn location(&self, head: &RequestHead<'_>, rest: &str) -> String {
        let mut location = String::new();
        for (before, place) in &self.parts {
            location.push_str(before);
            match place {
                Place::Host => location.push_str(head.authority().unwrap_or_default().host()),
                Place::Path => location.push_str(head.target.path()),
                Place::Rest => location.push_str(rest),
                Place::Query => {
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

/// `text`, if no brace is left in it.
fn literal(text: &str) -> Result<String, InvalidRedirect> {
    if text.contains('}') { Err(InvalidRedirect::Braces) } else { Ok(text.to_owned()) }
}

impl Place {
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
        // Not `mounted_path`, to which nothing and `/` are the same.
        let rest = request.path().get(request.mount_prefix()..).unwrap_or_default();
        let location = self.location(request.head(), rest);
        Answer::Now(Response::new(self.status).with_field("Location", location))
    }
}

/// As it was written.
impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (before, place) in &self.parts {
            let name = match place {
                Place::Host => "host",
                Place::Path => "path",
                Place::Query => "query",
                Place::Rest => "rest",
            };
            write!(f, "{before}{{{name}}}")?;
        }
        write!(f, "{} with {}", self.end, self.status)
    }
}

impl fmt::Display for InvalidRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Braces => "a place stands in braces: `{path}`",
            Self::Octets => {
                "a place to redirect to is written as a URI: visible ASCII, the rest percent-encoded"
            }
            Self::Place => "the places are `{host}`, `{path}`, `{query}` and `{rest}`",
            Self::Start => "a redirect goes to `https://HOST…`, `http://HOST…` or `/PATH…`",
            Self::Status => "the status of a redirect is 301, 302, 303, 307 or 308",
        })
    }
}

impl std::error::Error for InvalidRedirect {}

#[cfg(test)]
mod tests {
    use thruway_server::Router;
    use thruway_testkit::scene::Scene;

    use super::*;

    fn redirect(to: &str) -> Result<Redirect, InvalidRedirect> {
        Redirect::new(to, StatusCode::PERMANENT_REDIRECT)
    }

    fn location(to: &str, target: &str) -> String {
        let scene = Scene::new(Router::new().mount("/old", redirect(to).unwrap()));
        let mut client = scene.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: example.com:8080\r\n\r\n"));
        let response = client.received();
        assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
        let location = response.split("\r\nLocation: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        location.unwrap().to_owned()
    }

    #[test]
    fn places_are_filled_from_the_request() {
        for (to, target, expected) in [
            ("https://{host}{path}{query}", "/old/a%20b?c=d", "https://example.com/old/a%20b?c=d"),
            ("https://{host}{path}{query}", "/old", "https://example.com/old"),
            ("https://{host}/{query}x", "/old?", "https://example.com/?x"),
            ("/new{rest}{query}", "/old/a/b?c", "/new/a/b?c"),
            ("/new{rest}", "/old", "/new"),
            ("/new{rest}", "/old/", "/new/"),
            ("http://other/here", "/old/a?b", "http://other/here"),
            ("/{query}", "/old?a", "/?a"),
        ] {
            assert_eq!(location(to, target), expected, "{to} {target}");
        }
    }

    #[test]
    fn a_request_cannot_choose_the_host() {
        for to in
            ["{path}", "/{path}", "//{path}", "https://{path}", "{rest}", "//other", "https://", "other", ""]
        {
            assert_eq!(redirect(to).unwrap_err(), InvalidRedirect::Start, "{to}");
        }
        assert_eq!(location("/new{rest}", "/old//evil.example/"), "/new//evil.example/");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (to, error) in [
            ("/{where}", InvalidRedirect::Place),
            ("/{path", InvalidRedirect::Braces),
            ("/path}", InvalidRedirect::Braces),
            ("/a b", InvalidRedirect::Octets),
            ("/é", InvalidRedirect::Octets),
            ("/a\r\nb", InvalidRedirect::Octets),
        ] {
            assert_eq!(redirect(to).unwrap_err(), error, "{to}");
        }
        assert_eq!(Redirect::new("/a", StatusCode::OK).unwrap_err(), InvalidRedirect::Status);
    }

    #[test]
    fn it_shows_itself_as_it_is_written() {
        let text = "https://{host}/a{rest}{query}#b";
        assert_eq!(redirect(text).unwrap().to_string(), format!("{text} with 308"));
    }
}
