//! Cookies of a response (RFC 6265 §4.1).

use cookie::Cookie;

use super::Response;

impl Response {
    /// The same with a `Set-Cookie` field.
    #[must_use]
    pub fn with_cookie(self, cookie: &Cookie<'_>) -> Self {
        self.with_field("Set-Cookie", cookie.to_string())
    }
}
