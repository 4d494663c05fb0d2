//! Names in headers: the encoded form is a valid header value and decodes to the same name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thruway_mcp::header_value::{decode, encode};
use thruway_message::FieldLinesBuf;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes) {
        check(text);
    }
    if let Ok(text) = decode(bytes) {
        check(&text);
    }
});

fn check(text: &str) {
    let encoded = encode(text);
    assert_eq!(encoded.trim(), encoded, "white space around it would be gone");
    assert!(FieldLinesBuf::default().append("mcp-name", encoded.as_bytes()).is_ok(), "{encoded:?}");
    assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(text));
}
