//! Chunked bodies: the content does not depend on the split of the input, and a naive decoder finds the same
//! content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thruway_http1::Limits;
use thruway_testkit::Random;
use thruway_testkit::transcript::{
    Event, Reader, assert_same_for_all_splits, fixed_size_splits, random_splits,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, body) = input;
    let limits = match choice & 1 {
        0 => Limits::default(),
        _ => Limits {
            content_bytes: 64,
            chunk_extension_bytes: 24,
            trailer_section_bytes: 32,
            ..Limits::default()
        },
    };
    let mut bytes = HEAD.to_vec();
    bytes.extend_from_slice(body);
    let reader = Reader::Server { declines_tunnels: true };
    let mut random = Random::new(u64::from(choice));
    let splits = fixed_size_splits(&bytes, 1).chain(random_splits(&bytes, &mut random, 3));
    let transcript = assert_same_for_all_splits(&reader, limits, &bytes, splits);
    let [Event::Request { .. }, rest @ ..] = transcript.events.as_slice() else { panic!("{transcript}") };
    let content = match rest {
        [Event::Content(content), Event::EndOfContent(_), ..] => content.as_slice(),
        [Event::EndOfContent(_), ..] => b"",
        _ => return,
    };
    assert_eq!(Some(content), decode_naively(body).as_deref(), "{}", body.escape_ascii());
});

/// Decodes the chunks of `body`. Ignores all bytes between the size of a chunk and the next CRLF.
fn decode_naively(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let digits = body.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = usize::from_str_radix(str::from_utf8(&body[..digits]).ok()?, 16).ok()?;
        let line_end = body.windows(2).position(|pair| pair == b"\r\n")?;
        if size == 0 {
            return Some(content);
        }
        let data = &body[line_end + 2..];
        content.extend_from_slice(data.get(..size)?);
        body = data[size..].strip_prefix(b"\r\n")?;
    }
}

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
