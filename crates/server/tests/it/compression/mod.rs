//! Tests of compressed responses as received by clients.

mod exceptions;
mod fields;
mod negotiation;
mod streams;

use std::convert::Infallible;
use std::io::{ErrorKind, Read};

use bytes::Bytes;
use thruway_server::layers::{Compression, Layered};
use thruway_server::{Content, FieldLinesBuf, IntoHandler, Response};
use thruway_testkit::Random;
use thruway_testkit::test_server::{TestClient, TestServer};

/// A response with its chunks joined.
struct Reply {
    head: String,
    content: Vec<u8>,
    /// `true` if the body has arrived up to its end.
    is_complete: bool,
}

impl Reply {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end + 2].to_vec()).unwrap();
        let body = &bytes[end + 4..];
        let mut reply = Self { head, content: body.to_vec(), is_complete: true };
        if reply.field("Transfer-Encoding") == "chunked" {
            (reply.content, reply.is_complete) = without_chunks(body);
        }
        reply
    }

    /// Returns the value of the only field line of this name, or an empty string if the field is missing.
    fn field(&self, name: &str) -> &str {
        let mut values = self.head.lines().filter_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next().unwrap_or_default();
        assert_eq!(values.next(), None, "{name} appears twice in {}", self.head);
        value
    }

    fn status(&self) -> &str {
        &self.head[9..12]
    }

    /// Returns the decoded body, which must be complete.
    fn decoded(&self) -> Vec<u8> {
        let (decoded, is_whole) = decode(self.field("Content-Encoding"), &self.content);
        assert!(is_whole, "the compressed body is incomplete");
        decoded
    }
}

/// Joins the data of all chunks. The flag is `true` if the last chunk has arrived.
fn without_chunks(mut body: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(line) = body.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        body = &body[line + 2..];
        if size == 0 {
            return (content, true);
        }
        content.extend_from_slice(&body[..size.min(body.len())]);
        body = body.get(size + 2..).unwrap_or_default();
    }
    (content, false)
}

/// Decodes as much of `bytes` as possible. The flag is `true` if the coding has reached its end.
fn decode(coding: &str, bytes: &[u8]) -> (Vec<u8>, bool) {
    match coding {
        "gzip" => read_all(flate2::read::GzDecoder::new(bytes)),
        "br" => read_all(brotli::Decompressor::new(bytes, 4096)),
        "zstd" => decode_zstandard(bytes),
        "" => (bytes.to_vec(), true),
        other => panic!("unknown coding {other}"),
    }
}

fn read_all(mut from: impl Read) -> (Vec<u8>, bool) {
    let (mut decoded, mut buffer) = (Vec::new(), [0; 1000]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return (decoded, true),
            Ok(length) => decoded.extend_from_slice(&buffer[..length]),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData), "{error}");
                return (decoded, false);
            }
        }
    }
}

fn decode_zstandard(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut context = zstd_safe::DStream::create();
    let mut input = zstd_safe::InBuffer::around(bytes);
    let mut decoded = Vec::new();
    loop {
        decoded.reserve(100_000);
        let length = decoded.len();
        let mut output = zstd_safe::OutBuffer::around_pos(&mut decoded, length);
        let left = context.decompress_stream(&mut output, &mut input).unwrap();
        if left == 0 || input.pos == bytes.len() && decoded.len() < decoded.capacity() {
            return (decoded, left == 0);
        }
    }
}

/// Returns `handler` with default compression.
fn compressed<M>(handler: impl IntoHandler<M>) -> Layered {
    Layered::new(handler).layer(Compression::new())
}

/// Sends a GET with these field lines on `client` and returns the response.
fn fetch(client: &mut TestClient, fields: &str) -> Reply {
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    Reply::of(&client.received_bytes())
}

/// Sends a GET with these field lines to a new server with `handler` and returns the response.
fn get<M>(handler: impl IntoHandler<M>, fields: &str) -> Reply {
    fetch(&mut TestServer::new(handler).connect(), fields)
}

/// Returns compressible text of about `bytes` bytes.
fn text(bytes: usize) -> String {
    let words = ["the ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dogs\n"];
    let mut random = Random::new(7);
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(words[random.below(words.len())]);
    }
    text
}

const TEXT: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: text/plain\r\n");

/// Returns a response that streams `bytes` in pieces of `piece` bytes.
fn streamed(bytes: &[u8], piece: usize) -> Response {
    let pieces: Vec<_> =
        bytes.chunks(piece).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
    Response::ok(TEXT, Content::stream(futures_util::stream::iter(pieces)))
}

const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];
