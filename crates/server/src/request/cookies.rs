//! Cookies of a request (RFC 6265 §5.4).

use cookie::Cookie;
use thruway_message::RequestHead;

use super::{OwnedRequest, Request};

impl<'a> Request<'a> {
    /// The cookie `name`, as the client sent it.
    pub fn cookie(&self, name: &str) -> Option<Cookie<'a>> {
        find(*self.head, name)
    }
}

impl OwnedRequest {
    /// The cookie `name`, as the client sent it.
    pub fn cookie(&self, name: &str) -> Option<Cookie<'_>> {
        find(self.head(), name)
    }
}

fn find<'a>(head: RequestHead<'a>, name: &str) -> Option<Cookie<'a>> {
    head.field_lines
        .all("cookie")
        .filter_map(|value| value.as_str())
        .flat_map(Cookie::split_parse)
        .filter_map(Result::ok)
        .find(|cookie| cookie.name() == name)
}
