//! The constant response, repeated so that one write can send many responses.

use std::time::SystemTime;

/// Maximum number of responses in one write.
const REPETITIONS: usize = 512;

/// Repetitions of one response.
pub(crate) struct Responses {
    bytes: Vec<u8>,
    response_bytes: usize,
}

impl Responses {
    /// Builds the response. Its `Date` is always the start time of the program, which is good enough here.
    #[expect(
        clippy::disallowed_methods,
        reason = "read once, at the start: this program has no shared clock"
    )]
    pub(crate) fn new() -> Self {
        let response = format!(
            "HTTP/1.1 200 OK\r\nServer: thruway\r\nDate: {date}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{content}",
            date = httpdate::fmt_http_date(SystemTime::now()),
            kind = contract::TEXT,
            length = contract::PLAINTEXT.len(),
            content = contract::PLAINTEXT,
        );
        Self { bytes: response.repeat(REPETITIONS).into_bytes(), response_bytes: response.len() }
    }

    /// Returns the length of `n` responses in bytes.
    pub(crate) fn bytes(&self, n: usize) -> usize {
        n * self.response_bytes
    }

    /// Returns the next bytes to send if `unsent` bytes remain. The connection may already have sent a part
    /// of the first response.
    pub(crate) fn unsent(&self, unsent: usize) -> &[u8] {
        let sent = (self.response_bytes - unsent % self.response_bytes) % self.response_bytes;
        let end = self.bytes.len().min(sent + unsent);
        &self.bytes[sent..end]
    }
}
