//! Pages that replace the bodies of error responses.

use std::sync::Arc;

use bytes::Bytes;
use thruway_server::{Answer, Handler, Request, Response, StatusCode};

use crate::StatusRange;

/// A page for error responses. The page is in memory, so it is available whatever happens to its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorPage {
    /// Statuses of the responses that get the page.
    pub statuses: StatusRange,
    /// Value of `Content-Type`. An invalid value turns the response into 500.
    pub content_type: String,
    /// The page.
    pub content: Bytes,
}

/// Pages for the error responses of a route or of a listener. The first page with the status of a response applies.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ErrorPages {
    /// The pages.
    pub pages: Vec<ErrorPage>,
    /// `true` if the pages also replace the error responses of upstream servers. Default `false`.
    pub intercepts_upstream: bool,
}

/// A handler that replaces the error responses of another handler.
struct WithErrorPages {
    pages: Arc<ErrorPages>,
    handler: Arc<dyn Handler>,
}

impl ErrorPages {
    /// Returns a handler that replaces the error responses of `handler` by the pages.
    pub fn wrap(self: Arc<Self>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithErrorPages { pages: self, handler })
    }

    pub(crate) fn apply(&self, response: Response) -> Response {
        let is_error = response.status() >= StatusCode::BAD_REQUEST;
        if !is_error || (response.is_relayed() && !self.intercepts_upstream) {
            return response;
        }
        match self.pages.iter().find(|page| page.statuses.contains(response.status())) {
            Some(page) => page.put_into(response),
            None => response,
        }
    }
}

impl ErrorPage {
    /// Replaces the body of `response`. Keeps its status and the headers that do not describe the body, such
    /// as `Retry-After`, `Set-Cookie` and `WWW-Authenticate`.
    #[cold]
    fn put_into(&self, mut response: Response) -> Response {
        for name in BODY_FIELDS {
            response.remove_field(name);
        }
        // In a 416 response, the header is the current length of the file (RFC 9110 §15.5.17).
        if response.status() != StatusCode::RANGE_NOT_SATISFIABLE {
            response.remove_field("content-range");
        }
        response.with_field("Content-Type", &self.content_type).with_content(self.content.clone())
    }
}

impl Handler for WithErrorPages {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match self.handler.handle(request) {
            Answer::Now(response) => Answer::Now(self.pages.apply(response)),
            later @ Answer::Later(_) => {
                let pages = self.pages.clone();
                later.map(move |response| pages.apply(response))
            }
        }
    }
}

/// Headers that describe the body (RFC 9110 §8 and §14, RFC 9530), except for `Content-Range`.
const BODY_FIELDS: [&str; 13] = [
    "accept-ranges",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-md5",
    "content-type",
    "digest",
    "etag",
    "last-modified",
    "repr-digest",
    "trailer",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_keeps_only_the_content_range_of_416() {
        let page = ErrorPage {
            statuses: StatusRange::new(400, 599),
            content_type: "text/html".to_owned(),
            content: Bytes::from_static(b"page"),
        };
        let pages = ErrorPages { pages: vec![page], intercepts_upstream: false };
        for (status, expected) in [(StatusCode::RANGE_NOT_SATISFIABLE, true), (StatusCode::NOT_FOUND, false)]
        {
            let response =
                Response::new(status).with_field("Content-Range", "bytes */5").with_field("ETag", "\"a\"");
            let response = pages.apply(response);
            assert_eq!(response.field("content-range").is_some(), expected);
            assert!(response.field("etag").is_none() && response.field("content-type").is_some());
        }
    }
}
