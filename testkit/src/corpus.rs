//! Requests with what has been used to make two servers see different ones.

use crate::Random;

/// Fields that frame a message in more than one way, or in none that all servers agree on.
pub const AMBIGUOUS: [&str; 24] = [
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

const HOSTS: [&str; 9] = [
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

const LINES: [&str; 32] = [
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

const ENDS: [&str; 5] = ["\r\n", "\r\n", "\r\n", "\n", "\r\r\n"];

const EXTENSIONS: [&str; 9] = ["", "", "", ";a=b", ";a=\"\r\n\"", " ", ";a\n", ";\u{e4}", "\t;a"];

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

const CONTENTS: [&str; 5] =
    ["", "a", "abc", "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", "0\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n"];

/// Bytes of one connection: a few requests, some of them unusual.
pub fn case(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=random.below(3) {
        let oddness = random.below(4);
        request(random, oddness, &mut bytes);
    }
    if random.one_in(8) {
        spoil(random, &mut bytes);
    }
    bytes
}

/// A choice that is the first one unless something odd is due.
fn pick<'c>(random: &mut Random, oddness: &mut usize, choices: &[&'c str]) -> &'c str {
    if *oddness > 0 && random.one_in(4) {
        *oddness -= 1;
        return one_of(random, choices);
    }
    choices[0]
}

fn request(random: &mut Random, mut oddness: usize, bytes: &mut Vec<u8>) {
    let odd = &mut oddness;
    let method = one_of(random, &METHODS[..4]);
    let method = if random.one_in(12) { one_of(random, &METHODS) } else { method };
    let target = pick(random, odd, &TARGETS);
    let version = pick(random, odd, &VERSIONS);
    text(bytes, &format!("{method} {target} {version}"));
    text(bytes, pick(random, odd, &ENDS));
    text(bytes, pick(random, odd, &HOSTS));
    while random.one_in(3) {
        let line = one_of(random, &LINES);
        text(bytes, if *odd > 0 { line } else { "X: a\r\n" });
    }
    match random.below(8) {
        0..3 => text(bytes, pick(random, odd, &ENDS)),
        3..5 => counted(random, odd, bytes),
        5..7 => chunked(random, odd, bytes),
        _ => {
            text(bytes, one_of(random, &AMBIGUOUS));
            text(bytes, "\r\n");
            chunks(random, odd, bytes);
        }
    }
}

fn counted(random: &mut Random, odd: &mut usize, bytes: &mut Vec<u8>) {
    let content = one_of(random, &CONTENTS);
    let length = content.len();
    let value = match random.below(12) {
        0 if *odd > 0 => format!("+{length}"),
        1 if *odd > 0 => format!("{length}, {length}"),
        2 => format!("0{length}"),
        3 => format!("{length} \t"),
        4 if *odd > 0 => format!("{}", length + 1),
        5 if *odd > 0 => format!("{}", length.saturating_sub(1)),
        _ => format!("{length}"),
    };
    let name = one_of(random, &["Content-Length", "content-length", "CONTENT-LENGTH"]);
    text(bytes, &format!("{name}:{}{value}\r\n", one_of(random, &["", " ", "\t"])));
    text(bytes, pick(random, odd, &ENDS));
    text(bytes, content);
}

fn chunked(random: &mut Random, odd: &mut usize, bytes: &mut Vec<u8>) {
    let value = one_of(random, &["chunked", "chunked", "Chunked", "chunked ", ",chunked", "\tchunked"]);
    text(bytes, &format!("Transfer-Encoding: {value}\r\n"));
    text(bytes, pick(random, odd, &ENDS));
    chunks(random, odd, bytes);
}

fn chunks(random: &mut Random, odd: &mut usize, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(3) {
        let content = one_of(random, &CONTENTS[1..]);
        let size = match random.below(10) {
            0 if *odd > 0 => format!("+{:x}", content.len()),
            1 if *odd > 0 => format!("0x{:x}", content.len()),
            2 if *odd > 0 => format!("1000000000000000{:x}", content.len()),
            3 => format!("000{:X}", content.len()),
            4 if *odd > 0 => format!("{:x}", content.len() + 1),
            _ => format!("{:x}", content.len()),
        };
        text(bytes, &size);
        text(bytes, pick(random, odd, &EXTENSIONS));
        text(bytes, pick(random, odd, &ENDS));
        text(bytes, content);
        text(bytes, pick(random, odd, &["\r\n", "\n", "", "\r", "xx"]));
    }
    text(bytes, one_of(random, &["0", "0", "0", "00", "0;a"]));
    text(bytes, pick(random, odd, &ENDS));
    text(bytes, pick(random, odd, &TRAILERS));
    text(bytes, pick(random, odd, &ENDS));
}

/// Changes, adds or removes a byte at a random position.
fn spoil(random: &mut Random, bytes: &mut Vec<u8>) {
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

fn text(bytes: &mut Vec<u8>, text: &str) {
    // Characters of Latin 1 are one byte each.
    bytes.extend(text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')));
}
