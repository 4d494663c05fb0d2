//! Heads: control data and a header section (RFC 9110 §6).

use crate::{Authority, FieldLines, FieldValue, Method, RequestTarget, StatusCode, Version};

/// The head of a request. Borrows from the octets it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// What is asked for.
    pub method: Method<'a>,
    /// What it is asked of.
    pub target: RequestTarget<'a>,
    /// The version of the protocol the client speaks on this connection.
    pub version: Version,
    /// The header section, in wire order and case.
    pub field_lines: FieldLines<'a>,
}

impl<'a> RequestHead<'a> {
    /// Host and port the request is for: that of the target, or else of the `Host` field (RFC 9110 §7.1,
    /// RFC 9112 §3.2.2).
    pub fn authority(&self) -> Option<Authority<'a>> {
        self.target.authority().or_else(|| Authority::parse(self.field("host")?.as_bytes()).ok())
    }

    /// The value of the first field line named `name`, in any case.
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.field_lines.field(name)
    }
}

/// The head of a response. Borrows from the octets it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code.
    pub status: StatusCode,
    /// The reason phrase as sent; without meaning (RFC 9112 §4).
    pub reason: &'a [u8],
    /// The version of the protocol the server speaks on this connection.
    pub version: Version,
    /// The header section, in wire order and case.
    pub field_lines: FieldLines<'a>,
}

impl<'a> ResponseHead<'a> {
    /// The value of the first field line named `name`, in any case.
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.field_lines.field(name)
    }
}
