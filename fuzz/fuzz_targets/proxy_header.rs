//! PROXY protocol headers: the result does not depend on the split of the input, and a parsed header can be
//! serialized and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thruway_net::{ProxyHeader, ProxyVersion};

fuzz_target!(|bytes: &[u8]| {
    let whole = ProxyHeader::parse(bytes);
    for length in 0..bytes.len() {
        match ProxyHeader::parse(&bytes[..length]) {
            Ok(None) => {}
            early => return assert_eq!(early, whole, "after {length} bytes"),
        }
    }
    let Ok(Some((header, length))) = whole else { return };
    assert!(length <= bytes.len());
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let mut written = Vec::new();
        header.write(version, &mut written);
        let parsed_again = ProxyHeader::parse(&written);
        let Ok(Some((again, length))) = parsed_again else { panic!("{header:?} became {parsed_again:?}") };
        assert_eq!(length, written.len());
        let mut written_again = Vec::new();
        again.write(version, &mut written_again);
        assert_eq!(written, written_again);
    }
});
