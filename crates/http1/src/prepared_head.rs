//! Writes response heads that differ only in the length of their content.

use alloc::vec::Vec;

use thruway_message::StatusCode;

use crate::write::{CONTENT_LENGTH, write_content_length_value, write_status_line};

/// The heads of similar responses: the status line, the field lines and the latest content length. A server
/// creates a value once for many responses. Writing a head then takes one copy, if the previous response had the
/// same content length.
///
/// The heads are for responses with a known content length that keep an HTTP/1.1 connection open. They are
/// equal to the heads of [`write_response_head`](crate::write_response_head).
///
/// ```
/// use thruway_http1::PreparedHead;
/// use thruway_message::StatusCode;
///
/// let mut head = PreparedHead::new(StatusCode::OK, [b"Content-Type: text/plain\r\n", b""]);
/// let mut output = Vec::new();
/// head.write(&mut output, 2);
/// assert_eq!(output, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n");
/// ```
#[derive(Clone, Debug)]
pub struct PreparedHead {
    /// The head of the latest response.
    bytes: Vec<u8>,
    /// Number of bytes before the value of `Content-Length`.
    start_bytes: usize,
    content_bytes: u64,
}

impl PreparedHead {
    /// Prepares heads with `status` and `field_lines`. The field lines must be in wire format and must not
    /// include framing fields. The status must not be interim.
    #[must_use]
    pub fn new(status: StatusCode, field_lines: [&[u8]; 2]) -> Self {
        let mut head = Self { bytes: Vec::new(), start_bytes: 0, content_bytes: 0 };
        head.renew(status, field_lines);
        head
    }

    /// Replaces the status and the field lines, for example because `Date` has changed. Reuses the memory of
    /// the previous head. The parameters are the same as in [`new`](Self::new).
    pub fn renew(&mut self, status: StatusCode, field_lines: [&[u8]; 2]) {
        self.bytes.clear();
        write_status_line(&mut self.bytes, status);
        for lines in field_lines {
            self.bytes.extend_from_slice(lines);
        }
        self.bytes.extend_from_slice(CONTENT_LENGTH);
        self.start_bytes = self.bytes.len();
        write_content_length_value(&mut self.bytes, self.content_bytes);
    }

    /// Appends a head with the content length `content_bytes` to `output`.
    #[inline]
    pub fn write(&mut self, output: &mut Vec<u8>, content_bytes: u64) {
        if self.content_bytes != content_bytes {
            self.bytes.truncate(self.start_bytes);
            write_content_length_value(&mut self.bytes, content_bytes);
            self.content_bytes = content_bytes;
        }
        output.extend_from_slice(&self.bytes);
    }
}
