//! Limits of the replies of a server. The client collects each reply in memory, so a hostile or damaged server could
//! otherwise use any amount of it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails as soon as the server begins a reply above the limits.
pub(super) struct LimitedStream<S> {
    stream: S,
    replies: ReplyScanner,
}

impl<S> LimitedStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, replies: ReplyScanner::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = result
            && let Err(error) = self.replies.scan(&buffer.filled()[before..])
        {
            // The client does not get the data.
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, error)));
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Reason why a reply fails the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReplyError {
    /// The reply would use more than [`REPLY_BYTES_MAX`].
    TooLarge,
    /// A line of the reply is longer than [`LINE_BYTES_MAX`].
    LongLine,
    /// The reply contains more than [`DEPTH_MAX`] arrays within each other.
    TooDeep,
    /// The data is no reply in the protocol of Redis.
    Malformed,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server sent ")?;
        match self {
            Self::TooLarge => write!(f, "a reply above {} MiB", REPLY_BYTES_MAX >> 20),
            Self::LongLine => write!(f, "a reply with a line above {} KiB", LINE_BYTES_MAX >> 10),
            Self::TooDeep => write!(f, "a reply with more than {DEPTH_MAX} nested arrays"),
            Self::Malformed => f.write_str("data that is no reply of Redis"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Follows the replies of a server (RESP3), in pieces of any length. Keeps no content.
#[derive(Default)]
struct ReplyScanner {
    expected: Expected,
    /// Memory that the current reply uses so far, or has announced.
    bytes: u64,
    /// Number of missing elements of each array, map and set that the current reply has begun, outermost first.
    open: Vec<u64>,
}

/// The next bytes of a reply.
#[derive(Default)]
enum Expected {
    /// The byte that begins a value.
    #[default]
    Type,
    /// The rest of a line. Ends with CR LF.
    Line { kind: u8, length: Length, bytes: usize, is_after_cr: bool },
    /// The rest of a string with a known length, and of the following CR LF.
    Content { remaining: u64 },
}

/// The number in a line, as far as it has arrived.
#[derive(Clone, Copy)]
enum Length {
    None,
    /// Only a minus sign.
    Minus,
    /// The number −1, the length of a missing value.
    Missing,
    Known(u64),
    /// The line is no valid length.
    Invalid,
}

impl ReplyScanner {
    /// # Errors
    /// The server has begun a reply above the limits, or sent other data. The connection is then of no use.
    fn scan(&mut self, mut data: &[u8]) -> Result<(), ReplyError> {
        while let Some((&byte, rest)) = data.split_first() {
            match &mut self.expected {
                Expected::Type => {
                    self.begin_value(byte)?;
                    data = rest;
                }
                Expected::Line { kind, length, bytes, is_after_cr } => {
                    data = rest;
                    if byte == b'\n' && *is_after_cr {
                        let (kind, length) = (*kind, *length);
                        self.end_line(kind, length)?;
                        continue;
                    }
                    if *is_after_cr {
                        // The carriage return was a part of the line.
                        *length = Length::Invalid;
                    }
                    *is_after_cr = byte == b'\r';
                    *bytes += 1;
                    if *bytes > LINE_BYTES_MAX {
                        return Err(ReplyError::LongLine);
                    }
                    if byte != b'\r' {
                        *length = length.with(byte);
                    }
                }
                Expected::Content { remaining } => {
                    let length = data.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                    *remaining -= length as u64;
                    data = &data[length..];
                    if *remaining == 0 {
                        self.end_value();
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_value(&mut self, kind: u8) -> Result<(), ReplyError> {
        if !b"+-:_,#($!=*~>%|".contains(&kind) {
            return Err(ReplyError::Malformed);
        }
        self.add(VALUE_BYTES)?;
        self.expected = Expected::Line { kind, length: Length::None, bytes: 0, is_after_cr: false };
        Ok(())
    }

    fn end_line(&mut self, kind: u8, length: Length) -> Result<(), ReplyError> {
        let Expected::Line { bytes, .. } = self.expected else { return Ok(()) };
        let is_simple = b"+-:_,#(".contains(&kind);
        if is_simple {
            self.add(bytes as u64)?;
            self.end_value();
            return Ok(());
        }
        match (kind, length) {
            (b'$' | b'*', Length::Missing) => self.end_value(),
            (b'$' | b'!' | b'=', Length::Known(length)) => {
                self.add(length)?;
                // The content ends with CR LF.
                self.expected = Expected::Content { remaining: length.saturating_add(2) };
            }
            (b'*' | b'~' | b'>', Length::Known(length)) => self.begin_aggregate(length)?,
            (b'%', Length::Known(pairs)) => self.begin_aggregate(pairs.saturating_mul(2))?,
            // The value follows the pairs.
            (_, Length::Known(pairs)) => {
                self.begin_aggregate(pairs.saturating_mul(2).saturating_add(1))?;
            }
            _ => return Err(ReplyError::Malformed),
        }
        Ok(())
    }

    fn begin_aggregate(&mut self, elements: u64) -> Result<(), ReplyError> {
        if elements == 0 {
            self.end_value();
            return Ok(());
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(ReplyError::TooDeep);
        }
        // Each element counts when it begins. An impossible number fails at once.
        if elements.saturating_mul(VALUE_BYTES) > REPLY_BYTES_MAX {
            return Err(ReplyError::TooLarge);
        }
        self.open.push(elements);
        self.expected = Expected::Type;
        Ok(())
    }

    fn end_value(&mut self) {
        self.expected = Expected::Type;
        while let Some(missing) = self.open.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.open.pop();
        }
        self.bytes = 0;
    }

    fn add(&mut self, bytes: u64) -> Result<(), ReplyError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REPLY_BYTES_MAX { Err(ReplyError::TooLarge) } else { Ok(()) }
    }
}

impl Length {
    /// Adds the next byte of the line.
    fn with(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::None, b'-') => Self::Minus,
            (Self::Minus, b'1') => Self::Missing,
            (Self::None, b'0'..=b'9') => Self::Known(u64::from(byte - b'0')),
            (Self::Known(length), b'0'..=b'9') => {
                Self::Known(length.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
            }
            _ => Self::Invalid,
        }
    }
}

/// Maximum size of a reply: its content, and [`VALUE_BYTES`] for each value. The largest operation, 64 events of 64 KiB,
/// needs 4 MiB. The client needs up to three times as much memory while it reads the reply.
const REPLY_BYTES_MAX: u64 = 8 << 20;

/// Memory of a value without its content.
const VALUE_BYTES: u64 = 64;

/// Maximum length of a line: errors, numbers and short texts.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Maximum number of arrays, maps and sets within each other. Replies of Redis have at most five.
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a scan of `data` in pieces of `piece` bytes, and whether the last reply is complete.
    fn scanned(data: &[u8], piece: usize) -> Result<bool, ReplyError> {
        let mut replies = ReplyScanner::default();
        for part in data.chunks(piece) {
            replies.scan(part)?;
        }
        Ok(replies.bytes == 0 && replies.open.is_empty())
    }

    #[test]
    fn replies_of_each_type_end_at_the_right_place_in_pieces_of_any_length() {
        let replies: &[&[u8]] = &[
            b"+OK\r\n",
            b"+a\rb\nc\r\r\n",
            b"-ERR wrong\r\n",
            b":-12\r\n",
            b"_\r\n",
            b",1.5e3\r\n",
            b"#t\r\n",
            b"(349289032840923850\r\n",
            b"$0\r\n\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"$7\r\na\r\n+b\r\n\r\n",
            b"!5\r\nERR x\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
            b"~1\r\n+a\r\n",
            b"%1\r\n+a\r\n%0\r\n",
            b">2\r\n+message\r\n*1\r\n_\r\n",
            b"|1\r\n+a\r\n:1\r\n*1\r\n:2\r\n",
            b"*1\r\n|0\r\n:1\r\n",
        ];
        let all = replies.concat();
        for piece in 1..=all.len() {
            assert_eq!(scanned(&all, piece), Ok(true), "{piece}");
        }
        for reply in replies {
            for length in 1..reply.len() {
                assert_eq!(scanned(&reply[..length], 1), Ok(false), "{:?}", &reply[..length]);
            }
        }
    }

    #[test]
    fn the_announcement_of_a_large_reply_fails_at_once() {
        let fits = REPLY_BYTES_MAX - VALUE_BYTES;
        assert_eq!(scanned(format!("${fits}\r\n").as_bytes(), 3), Ok(false));
        for announced in [
            format!("${}\r\n", fits + 1),
            "$2000000000\r\n".to_owned(),
            "$99999999999999999999999\r\n".to_owned(),
            "*9223372036854775807\r\n".to_owned(),
            "%9223372036854775808\r\n".to_owned(),
            "|18446744073709551615\r\n".to_owned(),
            format!("*{}\r\n", REPLY_BYTES_MAX / VALUE_BYTES + 1),
        ] {
            for piece in [1, announced.len()] {
                assert_eq!(scanned(announced.as_bytes(), piece), Err(ReplyError::TooLarge), "{announced:?}");
            }
        }
    }

    #[test]
    fn many_small_values_are_one_large_reply() {
        let strings = format!("*100\r\n{}", format!("$100000\r\n{}\r\n", "x".repeat(100_000)).repeat(100));
        assert_eq!(scanned(strings.as_bytes(), 8192), Err(ReplyError::TooLarge));
        let arrays = format!("*100000\r\n{}", "*3\r\n_\r\n_\r\n_\r\n".repeat(100_000));
        assert_eq!(scanned(arrays.as_bytes(), 8192), Err(ReplyError::TooLarge));
        // Many replies are no large reply.
        assert_eq!(scanned(&b"$3\r\nabc\r\n".repeat(1_000_000), 8192), Ok(true));
    }

    #[test]
    fn deep_replies_long_lines_and_other_protocols_fail() {
        let deep = |depth| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        assert_eq!(scanned(&deep(DEPTH_MAX), 1), Ok(true));
        assert_eq!(scanned(&deep(DEPTH_MAX + 1), 1), Err(ReplyError::TooDeep));
        assert_eq!(scanned(&b"|1\r\n+a\r\n".repeat(DEPTH_MAX + 1), 7), Err(ReplyError::TooDeep));
        let line = |length| [b"-".to_vec(), b"x".repeat(length), b"\r\n".to_vec()].concat();
        assert_eq!(scanned(&line(LINE_BYTES_MAX - 1), 1000), Ok(true));
        assert_eq!(scanned(&line(LINE_BYTES_MAX), 1000), Err(ReplyError::LongLine));
        for other in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\x15\x03\x03\0\x02",
            b"$\r\n",
            b"$-2\r\n",
            b"$?\r\n",
            b"$1 \r\n",
            b"$1\r1\r\n",
            b"=-1\r\n",
            b"%-1\r\n",
            b"*1\r\nx",
        ] {
            assert_eq!(scanned(other, 1), Err(ReplyError::Malformed), "{other:?}");
        }
    }
}
