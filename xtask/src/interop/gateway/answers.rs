//! Splits the bytes that a client received on a connection into responses.

use anyhow::{Context as _, ensure};

/// All bytes that a client received on a connection.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    /// `true` if the connection ended with a reset. A gateway may reset a connection after the last response
    /// if the client asked for the end of the connection and sent more bytes (docs/decisions/0055).
    pub(super) is_reset: bool,
}

/// A final response and its body.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content: Vec<u8>,
}

/// Splits the received bytes into final responses. `is_to_head` returns `true` if the response with this
/// index answers a HEAD request.
///
/// # Errors
/// A response is malformed or incomplete. A response that ends with its connection is incomplete after a
/// reset.
pub(super) fn split(
    received: &Received,
    mut is_to_head: impl FnMut(usize) -> bool,
) -> anyhow::Result<Vec<Answer>> {
    let mut bytes = &received.bytes[..];
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let end = find(bytes, b"\r\n\r\n").context("a head has no end")?;
        let head = std::str::from_utf8(&bytes[..end]).context("a head is not ASCII")?;
        bytes = &bytes[end + 4..];
        let status = status(head)?;
        if status == 100 {
            continue;
        }
        // A refusal of what is not complete may be one of `HEAD` too.
        let is_bare = status == 204 || is_to_head(answers.len()) || (status >= 400 && bytes.is_empty());
        let framing = if is_bare { Framing::Length(0) } else { framing(head)? };
        ensure!(!received.is_reset || framing != Framing::Close, "a reset cut off the response: {head:?}");
        let (content, rest) =
            framing.split(bytes).with_context(|| format!("an answer is cut off: {head:?}"))?;
        answers.push(Answer { status, content });
        bytes = rest;
    }
    Ok(answers)
}

/// The end of the body of a response.
#[derive(PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Framing {
    /// Returns the body and the bytes after it. `None` if the body is incomplete.
    fn split(self, bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        match self {
            Self::Length(length) => {
                bytes.split_at_checked(length).map(|(content, rest)| (content.to_vec(), rest))
            }
            Self::Chunked => split_chunks(bytes),
            Self::Close => Some((bytes.to_vec(), &[])),
        }
    }
}

/// Reads a chunked body without extensions and trailers, as the gateway writes it.
fn split_chunks(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    loop {
        let (size, rest) = bytes.split_at_checked(find(bytes, b"\r\n")?)?;
        let size = usize::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        let (chunk, rest) = rest[2..].split_at_checked(size)?;
        content.extend(chunk);
        bytes = rest.strip_prefix(b"\r\n")?;
        if size == 0 {
            return Some((content, bytes));
        }
    }
}

fn status(head: &str) -> anyhow::Result<u16> {
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    status.and_then(|status| status.parse().ok()).with_context(|| format!("no status line: {head:?}"))
}

fn framing(head: &str) -> anyhow::Result<Framing> {
    let mut framing = Framing::Close;
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").with_context(|| format!("no field line: {line:?}"))?;
        if name.eq_ignore_ascii_case("transfer-encoding") {
            ensure!(value == "chunked", "an unexpected transfer coding: {value:?}");
            framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(value.parse().with_context(|| format!("no length: {value:?}"))?);
        }
    }
    Ok(framing)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 400 Bad Request\r\n\r\nno";

    fn split(bytes: &[u8], is_to_head: impl FnMut(usize) -> bool) -> anyhow::Result<Vec<Answer>> {
        super::split(&Received { bytes: bytes.to_vec(), is_reset: false }, is_to_head)
    }

    #[test]
    fn a_reset_may_follow_only_a_response_with_a_length() {
        let reset = |bytes: &[u8]| Received { bytes: bytes.to_vec(), is_reset: true };
        assert!(super::split(&reset(&TWO[..65]), |_| false).is_ok());
        assert!(super::split(&reset(b"HTTP/1.1 200 OK\r\n\r\nok"), |_| false).is_err());
    }

    #[test]
    fn answers_end_where_they_say() {
        let answer = |status, content: &[u8]| Answer { status, content: content.to_vec() };
        assert_eq!(split(TWO, |_| false).unwrap(), [answer(200, b"ok"), answer(400, b"no")]);
        assert_eq!(split(&TWO[..63], |_| true).unwrap(), [answer(200, b"")]);
    }

    #[test]
    fn chunks_are_put_together() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n";
        assert_eq!(split(bytes, |_| false).unwrap()[0].content, b"ok!");
        assert!(split(&bytes[..bytes.len() - 1], |_| false).is_err());
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        assert!(split(&TWO[..64], |_| false).is_err());
        assert!(split(&TWO[..40], |_| false).is_err());
    }
}
