//! The constant answer, repeated so that many answers leave in one write.

use std::time::SystemTime;

/// Answers sent at once at most; more are sent in several writes.
const REPEATED: usize = 512;

/// One answer over and over.
pub(crate) struct Answers {
    bytes: Vec<u8>,
    answer_bytes: usize,
}

impl Answers {
    /// Writes the answer; its `Date` is that of the start and goes stale, as a ceiling may.
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

    /// Length of `n` answers in bytes.
    pub(crate) fn bytes(&self, n: usize) -> usize {
        n * self.answer_bytes
    }

    /// The next bytes to send when `owed` bytes of whole answers are left, some of the first perhaps sent.
    pub(crate) fn owed(&self, owed: usize) -> &[u8] {
        let sent = (self.answer_bytes - owed % self.answer_bytes) % self.answer_bytes;
        let end = self.bytes.len().min(sent + owed);
        &self.bytes[sent..end]
    }
}
