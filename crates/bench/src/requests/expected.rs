//! Checks whether a response is successful.

use sha2::{Digest as _, Sha256};

use super::error::InvalidDigest;
use crate::failure::{Detail, Failure, FailureKind};

/// Conditions for a successful response. Default: any 2xx or 3xx status with any body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    /// The expected status.
    pub status: Option<u16>,
    /// The expected size of the body, in bytes.
    pub content_bytes: Option<u64>,
    /// The expected SHA-256 digest of the body.
    pub sha256: Option<[u8; 32]>,
}

/// The part of a response that has arrived so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_bytes: u64,
    digest: Option<Sha256>,
}

impl Expected {
    /// Parses a digest of 64 hexadecimal digits.
    ///
    /// # Errors
    /// Returns an error if the text is not such a digest.
    pub fn parse_digest(text: &str) -> Result<[u8; 32], InvalidDigest> {
        let digits = text.as_bytes();
        let mut digest = [0; 32];
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(InvalidDigest);
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| InvalidDigest)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| InvalidDigest)?;
        }
        Ok(digest)
    }

    /// Begins a response with this status.
    #[inline]
    pub(crate) fn begin(&self, status: u16) -> Answer {
        Answer { status, content_bytes: 0, digest: self.sha256.map(|_| Sha256::new()) }
    }

    /// Checks that the complete response meets these conditions.
    #[inline]
    pub(crate) fn judge(&self, answer: &mut Answer) -> Result<(), Failure> {
        let Answer { status, content_bytes, digest } = answer;
        let is_right = self.status.map_or((200..400).contains(status), |expected| expected == *status);
        if !is_right {
            return Err(Failure { kind: FailureKind::WrongStatus, detail: Detail::Status(*status) });
        }
        if self.content_bytes.is_some_and(|expected| expected != *content_bytes) {
            return Err(Failure { kind: FailureKind::WrongLength, detail: Detail::Length(*content_bytes) });
        }
        let digest = digest.take().map(|digest| <[u8; 32]>::from(digest.finalize()));
        if digest != self.sha256 {
            return Err(Failure::of(FailureKind::WrongDigest));
        }
        Ok(())
    }
}

impl Answer {
    /// Counts and hashes the next part of the body.
    #[inline]
    pub(crate) fn take_content(&mut self, content: &[u8]) {
        self.content_bytes += content.len() as u64;
        if let Some(digest) = &mut self.digest {
            digest.update(content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(expected: &Expected, status: u16, content: &[u8]) -> Option<FailureKind> {
        let mut answer = expected.begin(status);
        content.chunks(2).for_each(|piece| answer.take_content(piece));
        expected.judge(&mut answer).err().map(|failure| failure.kind)
    }

    #[test]
    fn response_is_compared_with_expected_status_length_and_digest() {
        let any = Expected::default();
        assert_eq!(judged(&any, 204, b""), None);
        assert_eq!(judged(&any, 302, b"abc"), None);
        assert_eq!(judged(&any, 404, b""), Some(FailureKind::WrongStatus));
        let gone = Expected { status: Some(410), ..any };
        assert_eq!(judged(&gone, 410, b""), None);
        assert_eq!(judged(&gone, 200, b""), Some(FailureKind::WrongStatus));
        let three = Expected { content_bytes: Some(3), ..any };
        assert_eq!(judged(&three, 200, b"abc"), None);
        assert_eq!(judged(&three, 200, b"ab"), Some(FailureKind::WrongLength));
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let abc = Expected { sha256: Some(Expected::parse_digest(digest).unwrap()), ..any };
        assert_eq!(judged(&abc, 200, b"abc"), None);
        assert_eq!(judged(&abc, 200, b"abd"), Some(FailureKind::WrongDigest));
    }

    #[test]
    fn invalid_digest_is_rejected() {
        for text in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32)] {
            assert_eq!(Expected::parse_digest(text), Err(InvalidDigest), "{text}");
        }
    }
}
