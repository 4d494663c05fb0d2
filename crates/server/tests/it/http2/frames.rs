//! Raw frames, for client behavior that no library supports.

use thruway_testkit::test_server::{TestClient, TestServer};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY_FLAG: u8 = 0x20;

pub(crate) const NO_ERROR: u32 = 0x0;
pub(crate) const PROTOCOL_ERROR: u32 = 0x1;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 0x3;
pub(crate) const STREAM_CLOSED: u32 = 0x5;
pub(crate) const FRAME_SIZE_ERROR: u32 = 0x6;
pub(crate) const REFUSED_STREAM: u32 = 0x7;
pub(crate) const CANCEL: u32 = 0x8;
pub(crate) const COMPRESSION_ERROR: u32 = 0x9;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 0xb;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A received frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) content: Vec<u8>,
}

impl Frame {
    /// Returns the error code of `RST_STREAM` or GOAWAY.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.content[at..at + 4].try_into().unwrap())
    }

    /// Returns the status of a response head, if HPACK has an index for this status.
    pub(crate) fn status(&self) -> Option<u16> {
        let statuses = [200, 204, 206, 304, 400, 404, 500];
        // The block may begin with a change of the table size.
        let first = self.content.iter().find(|byte| **byte & 0xe0 != 0x20)?;
        statuses.get(usize::from(first.checked_sub(0x88)?)).copied()
    }
}

/// Encodes a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let mut bytes = u32::try_from(content.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(content);
    bytes
}

/// Encodes fields with HPACK, without table or Huffman coding.
pub(crate) fn fields(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in lines {
        bytes.push(0);
        for text in [name, value] {
            push_length(&mut bytes, text.len());
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// Encodes a field with HPACK that goes into the dynamic table, without Huffman coding.
pub(crate) fn indexed_field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = fields(&[(name, value)]);
    bytes[0] = 0x40;
    bytes
}

/// Appends a number with a prefix of seven bits (RFC 7541 §5.1).
fn push_length(bytes: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return bytes.push(u8::try_from(length).unwrap());
    }
    bytes.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).unwrap());
}

/// Returns the fields of a GET request for `path`.
pub(crate) fn get(path: &str) -> Vec<(&str, &str)> {
    vec![(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a.example")]
}

/// Encodes a request without a body.
pub(crate) fn request(stream: u32, lines: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, fields(lines))
}

/// Encodes the head of a request with a body.
pub(crate) fn open_request(stream: u32, lines: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, fields(lines))
}

/// Returns a client that has exchanged the HTTP/2 preface and settings with the server.
pub(crate) fn connect_http2(scene: &TestServer) -> TestClient {
    let mut client = scene.connect_detecting_protocol();
    client.send(PREFACE).send(frame(SETTINGS, 0, 0, b""));
    let kinds: Vec<_> = received(&mut client).iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds[0], (SETTINGS, 0));
    assert!(kinds.contains(&(SETTINGS, ACK)), "{kinds:?}");
    client.send(frame(SETTINGS, ACK, 0, b""));
    client
}

/// Returns the frames received so far.
pub(crate) fn received(client: &mut TestClient) -> Vec<Frame> {
    let bytes = client.received_bytes();
    let mut rest = &bytes[..];
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, d, e, f, g, behind @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (content, next) = behind.split_at(length);
        let stream = u32::from_be_bytes([*d, *e, *f, *g]);
        frames.push(Frame { kind: *kind, flags: *flags, stream, content: content.to_vec() });
        rest = next;
    }
    assert!(rest.is_empty(), "the server sent an incomplete frame");
    frames
}

/// Returns the error code with which `frames` reset `stream`, if they do.
pub(crate) fn reset_code(frames: &[Frame], stream: u32) -> Option<u32> {
    let mut resets = frames.iter().filter(|frame| frame.kind == RST_STREAM && frame.stream == stream);
    resets.next().map(Frame::code)
}

/// Returns the error code of GOAWAY in `frames`, if any.
pub(crate) fn goaway_code(frames: &[Frame]) -> Option<u32> {
    frames.iter().filter(|frame| frame.kind == GOAWAY).map(Frame::code).next_back()
}

/// Returns the status of the response on `stream` in `frames`, if any.
pub(crate) fn status_of(frames: &[Frame], stream: u32) -> Option<u16> {
    frames.iter().find(|frame| frame.kind == HEADERS && frame.stream == stream)?.status()
}
