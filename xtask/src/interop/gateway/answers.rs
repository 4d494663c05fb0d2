//! Splits the bytes that a client received on a connection into responses.

use std::str;

use anyhow::{Context as _, bail, ensure};

/// All bytes that a client received on a connection.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    /// `true` if the connection ended with a reset. If the client sends more bytes after a request with
    /// `Connection: close`, the gateway may reset the connection after the last response
    /// (docs/decisions/0055).
    pub(super) is_reset: bool,
}

/// A final response and its body.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content: Vec<u8>,
}

/// Splits the received bytes into final responses. `is_to_head` returns `true` for the index of a response to
/// a HEAD request.
///
/// # Errors
/// A response is malformed or incomplete. A response without a length is incomplete if the connection ended
/// with a reset.
pub(super) fn split(received: &Received, is_to_head: impl Fn(usize) -> bool) -> anyhow::Result<Vec<Answer>> {
    let mut bytes = &received.bytes[..];
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut lines);
        let length = head
            .parse(bytes)
            .with_context(|| format!("malformed response head: {}", bytes.escape_ascii()))?;
        let httparse::Status::Complete(length) = length else { bail!("incomplete response head") };
        bytes = &bytes[length..];
        ensure!(head.version == Some(1), "the version is not HTTP/1.1: {head:?}");
        let status = head.code.context("the response has no status")?;
        if status == 100 {
            continue;
        }
        // An error response without a body may be the response to an incomplete HEAD request.
        let is_bare = status == 204 || is_to_head(answers.len()) || (status >= 400 && bytes.is_empty());
        let framing = if is_bare { Some((&b"0"[..], false)) } else { framing(&head) };
        ensure!(!received.is_reset || framing.is_some(), "a reset cut off the response: {head:?}");
        let (content, rest) =
            split_body(framing, bytes)?.with_context(|| format!("incomplete response body: {head:?}"))?;
        answers.push(Answer { status, content });
        bytes = rest;
    }
    Ok(answers)
}

/// Returns the value of the field that defines the length of the body, and `true` if this field is
/// `Transfer-Encoding`.
fn framing<'h>(head: &httparse::Response<'_, 'h>) -> Option<(&'h [u8], bool)> {
    let value = |name: &str| head.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name));
    let chunks = value("transfer-encoding").map(|line| (line.value, true));
    chunks.or_else(|| value("content-length").map(|line| (line.value, false)))
}

/// Returns the body and the bytes after it, or `None` if the body is incomplete.
fn split_body<'b>(
    framing: Option<(&[u8], bool)>,
    bytes: &'b [u8],
) -> anyhow::Result<Option<(Vec<u8>, &'b [u8])>> {
    match framing {
        None => Ok(Some((bytes.to_vec(), &[]))),
        Some((coding, true)) => {
            ensure!(coding == b"chunked", "an unexpected transfer coding: {}", coding.escape_ascii());
            Ok(split_chunks(bytes))
        }
        Some((length, false)) => {
            let length = str::from_utf8(length)?.parse().context("invalid Content-Length")?;
            Ok(bytes.split_at_checked(length).map(|(content, rest)| (content.to_vec(), rest)))
        }
    }
}

/// Reads a chunked body without extensions and trailers, because the gateway writes neither.
fn split_chunks(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        let (chunk, rest) = bytes[end + 2..].split_at_checked(size)?;
        content.extend(chunk);
        bytes = rest.strip_prefix(b"\r\n")?;
        if size == 0 {
            return Some((content, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_split_by_their_framing() {
        const COUNTED: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        const CHUNKS: &str =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n";
        const CLOSE: &str = "HTTP/1.1 400 Bad Request\r\n\r\nno";
        let answer = |status, content: &str| Answer { status, content: content.into() };
        let (counted, chunks) = (vec![answer(200, "ok")], vec![answer(200, "ok!")]);
        let both = vec![answer(200, "ok"), answer(400, "no")];
        let (two, cut_off) = (COUNTED.to_owned() + CLOSE, |text: &str| text[..text.len() - 1].to_owned());
        for (bytes, is_reset, expected) in [
            (two.clone(), false, Some(both)),
            (two, true, None),
            (COUNTED.to_owned(), true, Some(counted)),
            (CHUNKS.to_owned(), false, Some(chunks)),
            (cut_off(COUNTED), false, None),
            (cut_off(CHUNKS), false, None),
            ("HTTP/1.1 200 OK\r\n".to_owned(), false, None),
        ] {
            let received = Received { bytes: bytes.clone().into(), is_reset };
            assert_eq!(split(&received, |_| false).ok(), expected, "{bytes}");
        }
        let to_head = Received { bytes: cut_off(&cut_off(COUNTED)).into(), is_reset: false };
        assert_eq!(split(&to_head, |_| true).unwrap(), [answer(200, "")]);
    }
}
