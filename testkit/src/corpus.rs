//! Requests for tests of request smuggling: inputs that two servers may parse differently.

use crate::Random;

/// Header lines that give a message several lengths, or a length that servers interpret differently.
pub const AMBIGUOUS_FRAMING: [&str; 24] = [
    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    "Content-Length: 3\r\nContent-Length: 3\r\n",
    "Content-Length: 3\r\nContent-Length: 4\r\n",
    "Content-Length: 3, 3\r\n",
    "Content-Length: +3\r\n",
    "Content-Length: -3\r\n",
    "Content-Length: 0x3\r\n",
    "Content-Length: 3 3\r\n",
    "Content-Length:\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Content-Length : 3\r\n",
    "Content-Length\t: 3\r\n",
    " Content-Length: 3\r\n",
    "X: a\r\n Content-Length: 3\r\n",
    "X: a\r\n\tTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: chunked, chunked\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: \"chunked\"\r\n",
    "Transfer-Encoding: chunked;q=1\r\n",
    "Transfer-Encoding:\x0bchunked\r\n",
    "X: a\rTransfer-Encoding: chunked\r\n",
];

const METHODS: [&str; 9] = ["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "get", "M-SEARCH", "G\u{e4}T"];

const TARGETS: [&str; 18] = [
    "/",
    "/a",
    "/a?b",
    "//b",
    "/a/../b",
    "/%2e",
    "/a#b",
    "*",
    "a",
    "",
    "/a b",
    "/a\tb",
    "http://b.example/x",
    "http://b.example",
    "http://b.example?q",
    "HTTP://u@b.example/",
    "http://b.example:8/x",
    "/\u{e4}",
];

const VERSIONS: [&str; 9] = [
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "http/1.1",
    "HTTP/1.1 ",
];

const HOST_LINES: [&str; 9] = [
    "Host: a\r\n",
    "Host: a\r\n",
    "Host: a\r\n",
    "Host: a\r\n",
    "Host: a\r\nHost: b\r\n",
    "",
    "Host: a, b\r\n",
    "Host: a\"b\r\n",
    "Host : a\r\n",
];

const HEADER_LINES: [&str; 32] = [
    "X: a\r\n",
    "X: a\n",
    "X: a\r",
    "X: a\r\r\n",
    "X : a\r\n",
    "X\t: a\r\n",
    ": a\r\n",
    "X\r\n",
    "X: a\r\n b\r\n",
    "\r\n",
    "\n",
    "X: \0\r\n",
    "X: \u{e4}\r\n",
    "X\u{e4}: a\r\n",
    "X Y: a\r\n",
    "Content_Length: 3\r\n",
    "Transfer_Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: host\r\n",
    "Connection: content-length\r\n",
    "Connection: transfer-encoding\r\n",
    "Connection: upgrade\r\nUpgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "Expect: other\r\n",
    "Trailer: Content-Length\r\n",
    "TE: chunked, trailers\r\n",
    "X-Forwarded-For: 6.6.6.6, \"\r\n",
    "X-Forwarded-For: 6.6.6.6,\t10.0.0.1 ,,\r\n",
    "X_Forwarded_For: 6.6.6.6\r\n",
    "X-Forwarded-Host: b\"\u{e4}\r\n",
    "X-Forwarded-Proto: \r\n",
    "Forwarded: for=\"a\\\r\n",
];

const LINE_ENDS: [&str; 5] = ["\r\n", "\r\n", "\r\n", "\n", "\r\r\n"];

const CHUNK_EXTENSIONS: [&str; 9] = ["", "", "", ";a=b", ";a=\"\r\n\"", " ", ";a\n", ";\u{e4}", "\t;a"];

const TRAILERS: [&str; 9] = [
    "",
    "",
    "X: a\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Host: b\r\n",
    "X : a\r\n",
    "X: a\n",
    "X: a\r\n b\r\n",
];

const BODIES: [&str; 5] =
    ["", "a", "abc", "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", "0\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n"];

/// Returns the bytes that a client sends on one connection: one to three requests, some of them malformed.
pub fn random_requests(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=random.below(3) {
        let anomalies = random.below(4);
        request(random, anomalies, &mut bytes);
    }
    if random.one_in(8) {
        corrupt(random, &mut bytes);
    }
    bytes
}

/// Usually returns the first of `choices`, which is the normal choice. If `anomalies` is not 0, sometimes
/// subtracts 1 from `anomalies` and returns a random choice.
fn pick<'c>(random: &mut Random, anomalies: &mut usize, choices: &[&'c str]) -> &'c str {
    if *anomalies > 0 && random.one_in(4) {
        *anomalies -= 1;
        return one_of(random, choices);
    }
    choices[0]
}

fn request(random: &mut Random, mut anomalies: usize, bytes: &mut Vec<u8>) {
    let anomalies = &mut anomalies;
    let method = one_of(random, &METHODS[..4]);
    let method = if random.one_in(12) { one_of(random, &METHODS) } else { method };
    let target = pick(random, anomalies, &TARGETS);
    let version = pick(random, anomalies, &VERSIONS);
    push(bytes, &format!("{method} {target} {version}"));
    push(bytes, pick(random, anomalies, &LINE_ENDS));
    push(bytes, pick(random, anomalies, &HOST_LINES));
    while random.one_in(3) {
        let line = one_of(random, &HEADER_LINES);
        push(bytes, if *anomalies > 0 { line } else { "X: a\r\n" });
    }
    match random.below(8) {
        0..3 => push(bytes, pick(random, anomalies, &LINE_ENDS)),
        3..5 => body_with_content_length(random, anomalies, bytes),
        5..7 => chunked_body(random, anomalies, bytes),
        _ => {
            push(bytes, one_of(random, &AMBIGUOUS_FRAMING));
            push(bytes, "\r\n");
            chunks(random, anomalies, bytes);
        }
    }
}

fn body_with_content_length(random: &mut Random, anomalies: &mut usize, bytes: &mut Vec<u8>) {
    let content = one_of(random, &BODIES);
    let length = content.len();
    let value = match random.below(12) {
        0 if *anomalies > 0 => format!("+{length}"),
        1 if *anomalies > 0 => format!("{length}, {length}"),
        2 => format!("0{length}"),
        3 => format!("{length} \t"),
        4 if *anomalies > 0 => format!("{}", length + 1),
        5 if *anomalies > 0 => format!("{}", length.saturating_sub(1)),
        _ => format!("{length}"),
    };
    let name = one_of(random, &["Content-Length", "content-length", "CONTENT-LENGTH"]);
    push(bytes, &format!("{name}:{}{value}\r\n", one_of(random, &["", " ", "\t"])));
    push(bytes, pick(random, anomalies, &LINE_ENDS));
    push(bytes, content);
}

fn chunked_body(random: &mut Random, anomalies: &mut usize, bytes: &mut Vec<u8>) {
    let value = one_of(random, &["chunked", "chunked", "Chunked", "chunked ", ",chunked", "\tchunked"]);
    push(bytes, &format!("Transfer-Encoding: {value}\r\n"));
    push(bytes, pick(random, anomalies, &LINE_ENDS));
    chunks(random, anomalies, bytes);
}

fn chunks(random: &mut Random, anomalies: &mut usize, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(3) {
        let content = one_of(random, &BODIES[1..]);
        let size = match random.below(10) {
            0 if *anomalies > 0 => format!("+{:x}", content.len()),
            1 if *anomalies > 0 => format!("0x{:x}", content.len()),
            2 if *anomalies > 0 => format!("1000000000000000{:x}", content.len()),
            3 => format!("000{:X}", content.len()),
            4 if *anomalies > 0 => format!("{:x}", content.len() + 1),
            _ => format!("{:x}", content.len()),
        };
        push(bytes, &size);
        push(bytes, pick(random, anomalies, &CHUNK_EXTENSIONS));
        push(bytes, pick(random, anomalies, &LINE_ENDS));
        push(bytes, content);
        push(bytes, pick(random, anomalies, &["\r\n", "\n", "", "\r", "xx"]));
    }
    push(bytes, one_of(random, &["0", "0", "0", "00", "0;a"]));
    push(bytes, pick(random, anomalies, &LINE_ENDS));
    push(bytes, pick(random, anomalies, &TRAILERS));
    push(bytes, pick(random, anomalies, &LINE_ENDS));
}

/// Replaces, inserts or removes one byte at a random position.
fn corrupt(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len());
    let byte = *random.pick(b"\0\t\n\r :,;\x7f\x80\xff0a");
    match random.below(3) {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        _ => drop(bytes.remove(at)),
    }
}

fn one_of<'c>(random: &mut Random, choices: &[&'c str]) -> &'c str {
    choices[random.below(choices.len())]
}

fn push(bytes: &mut Vec<u8>, text: &str) {
    // Writes each character as one byte (Latin-1).
    bytes.extend(text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')));
}
