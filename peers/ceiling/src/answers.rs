//! The constant response, repeated so that one write can send many of them.

use std::time::SystemTime;

/// Maximum number of responses in one write.
const REPEATED: usize = 512;

/// Repetitions of one response.
pub(crate) struct Answers {
    bytes: Vec<u8>,
    answer_bytes: usize,
}

impl Answers {
    /// Builds the response. Its `Date` is the start time and goes stale, which is acceptable here.
    #[expect(clippy::disallowed_methods, reason = "read once, at the start: the ceiling has no clock")]
    pub(crate) fn new() -> Self {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nServer: thruway\r\nDate: {date}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{content}",
            date = httpdate::fmt_http_date(SystemTime::now()),
            kind = contract::TEXT,
            length = contract::PLAINTEXT.len(),
            content = contract::PLAINTEXT,
        );
        Self { bytes: answer.repeat(REPEATED).into_bytes(), answer_bytes: answer.len() }
    }

    /// Returns the length of `n` responses in bytes.
    pub(crate) fn bytes(&self, n: usize) -> usize {
        n * self.answer_bytes
    }

    /// Returns the next bytes to send if `owed` bytes remain. The first response may already be sent in part.
    pub(crate) fn owed(&self, owed: usize) -> &[u8] {
        let sent = (self.answer_bytes - owed % self.answer_bytes) % self.answer_bytes;
        let end = self.bytes.len().min(sent + owed);
        &self.bytes[sent..end]
    }
}
