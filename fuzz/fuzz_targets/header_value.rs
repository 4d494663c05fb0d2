//! MCP names in headers: the encoded form is a valid header value and decodes to the same name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thruway_mcp::header_value::{decode, encode};
use thruway_message::FieldLinesBuf;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes) {
        check_round_trip(text);
    }
    if let Ok(text) = decode(bytes) {
        check_round_trip(&text);
    }
});

fn check_round_trip(text: &str) {
    let encoded = encode(text);
    assert_eq!(encoded.trim(), encoded, "parsers strip leading and trailing whitespace");
    assert!(FieldLinesBuf::default().append("mcp-name", encoded.as_bytes()).is_ok(), "{encoded:?}");
    assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(text));
}
