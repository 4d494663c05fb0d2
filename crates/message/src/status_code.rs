//! Status codes (RFC 9110 §15).

use core::fmt;

/// A status code from 100 to 999. Unregistered codes are allowed, because a client must understand the
/// class of every code (RFC 9110 §15).
///
/// ```
/// use thruway_message::StatusCode;
///
/// let status = StatusCode::new(404)?;
/// assert_eq!((status, status.reason()), (StatusCode::NOT_FOUND, "Not Found"));
/// assert!(StatusCode::new(99).is_err());
/// # Ok::<_, thruway_message::InvalidStatusCode>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusCode(u16);

impl StatusCode {
    /// Returns the status code with the number `code`.
    ///
    /// # Errors
    /// Returns an error if `code` is not between 100 and 999.
    pub const fn new(code: u16) -> Result<Self, InvalidStatusCode> {
        if code < 100 || code > 999 {
            return Err(InvalidStatusCode);
        }
        Ok(Self(code))
    }

    /// Returns the three-digit number.
    pub const fn as_u16(self) -> u16 {
        self.0
    }

    /// Returns `true` if this is the status of an interim response (1xx).
    pub const fn is_interim(self) -> bool {
        self.0 < 200
    }

    /// Returns `true` if the status means success (2xx).
    pub const fn is_success(self) -> bool {
        self.0 / 100 == 2
    }

    /// Returns `true` if responses with this status never have content: 1xx, 204, 304 (RFC 9110 §6.4.1).
    pub const fn is_without_content(self) -> bool {
        self.0 < 200 || self.0 == 204 || self.0 == 304
    }

    /// Returns the registered reason phrase, or an empty string if the code is not registered.
    pub const fn reason(self) -> &'static str {
        reason(self.0)
    }
}

/// Creates a constant and a reason phrase for each registered status code.
macro_rules! status_codes {
    ($($code:literal $name:ident $reason:literal)*) => {
        impl StatusCode {
            $(
                #[doc = concat!(stringify!($code), " ", $reason)]
                pub const $name: Self = Self($code);
            )*
        }

        const fn reason(code: u16) -> &'static str {
            match code {
                $($code => $reason,)*
                _ => "",
            }
        }
    };
}

status_codes! {
    100 CONTINUE "Continue"
    101 SWITCHING_PROTOCOLS "Switching Protocols"
    102 PROCESSING "Processing"
    103 EARLY_HINTS "Early Hints"
    200 OK "OK"
    201 CREATED "Created"
    202 ACCEPTED "Accepted"
    203 NON_AUTHORITATIVE_INFORMATION "Non-Authoritative Information"
    204 NO_CONTENT "No Content"
    205 RESET_CONTENT "Reset Content"
    206 PARTIAL_CONTENT "Partial Content"
    207 MULTI_STATUS "Multi-Status"
    208 ALREADY_REPORTED "Already Reported"
    226 IM_USED "IM Used"
    300 MULTIPLE_CHOICES "Multiple Choices"
    301 MOVED_PERMANENTLY "Moved Permanently"
    302 FOUND "Found"
    303 SEE_OTHER "See Other"
    304 NOT_MODIFIED "Not Modified"
    305 USE_PROXY "Use Proxy"
    307 TEMPORARY_REDIRECT "Temporary Redirect"
    308 PERMANENT_REDIRECT "Permanent Redirect"
    400 BAD_REQUEST "Bad Request"
    401 UNAUTHORIZED "Unauthorized"
    402 PAYMENT_REQUIRED "Payment Required"
    403 FORBIDDEN "Forbidden"
    404 NOT_FOUND "Not Found"
    405 METHOD_NOT_ALLOWED "Method Not Allowed"
    406 NOT_ACCEPTABLE "Not Acceptable"
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required"
    408 REQUEST_TIMEOUT "Request Timeout"
    409 CONFLICT "Conflict"
    410 GONE "Gone"
    411 LENGTH_REQUIRED "Length Required"
    412 PRECONDITION_FAILED "Precondition Failed"
    413 CONTENT_TOO_LARGE "Content Too Large"
    414 URI_TOO_LONG "URI Too Long"
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type"
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable"
    417 EXPECTATION_FAILED "Expectation Failed"
    421 MISDIRECTED_REQUEST "Misdirected Request"
    422 UNPROCESSABLE_CONTENT "Unprocessable Content"
    423 LOCKED "Locked"
    424 FAILED_DEPENDENCY "Failed Dependency"
    425 TOO_EARLY "Too Early"
    426 UPGRADE_REQUIRED "Upgrade Required"
    428 PRECONDITION_REQUIRED "Precondition Required"
    429 TOO_MANY_REQUESTS "Too Many Requests"
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large"
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons"
    500 INTERNAL_SERVER_ERROR "Internal Server Error"
    501 NOT_IMPLEMENTED "Not Implemented"
    502 BAD_GATEWAY "Bad Gateway"
    503 SERVICE_UNAVAILABLE "Service Unavailable"
    504 GATEWAY_TIMEOUT "Gateway Timeout"
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported"
    506 VARIANT_ALSO_NEGOTIATES "Variant Also Negotiates"
    507 INSUFFICIENT_STORAGE "Insufficient Storage"
    508 LOOP_DETECTED "Loop Detected"
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required"
}

impl TryFrom<u16> for StatusCode {
    type Error = InvalidStatusCode;

    fn try_from(code: u16) -> Result<Self, InvalidStatusCode> {
        Self::new(code)
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}

/// The error for a status code that does not have three digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidStatusCode;

impl fmt::Display for InvalidStatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status code must have three digits")
    }
}

impl core::error::Error for InvalidStatusCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_have_three_digits() {
        assert!(StatusCode::new(99).is_err() && StatusCode::new(1000).is_err());
        assert_eq!(StatusCode::new(299).unwrap().reason(), "");
        assert_eq!(StatusCode::NOT_FOUND.reason(), "Not Found");
    }

    #[test]
    fn responses_1xx_204_and_304_have_no_body() {
        let without: alloc::vec::Vec<u16> = (100..1000)
            .filter(|code| *code >= 200 && StatusCode::new(*code).unwrap().is_without_content())
            .collect();
        assert_eq!(without, [204, 304]);
        assert!(StatusCode::SWITCHING_PROTOCOLS.is_without_content());
    }
}
