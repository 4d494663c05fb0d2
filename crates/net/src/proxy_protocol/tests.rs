use super::*;

fn tcp(source: &str, destination: &str) -> ProxyHeader {
    ProxyHeader::Tcp { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn written(header: ProxyHeader, version: ProxyVersion) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.write(version, &mut bytes);
    bytes
}

/// Returns a header of version 2 with these bytes after the signature.
fn v2(rest: &[u8]) -> Vec<u8> {
    [b"\r\n\r\n\0\r\nQUIT\n", rest].concat()
}

fn some_headers() -> [ProxyHeader; 3] {
    [
        ProxyHeader::Local,
        tcp("192.0.2.1:56324", "198.51.100.1:443"),
        tcp("[2001:db8::1]:1", "[2001:db8::2]:65535"),
    ]
}

#[test]
fn written_header_is_parsed_once_it_is_complete() {
    for header in some_headers() {
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let header_bytes = written(header, version);
            let bytes = [&header_bytes, &b"GET / HTTP/1.1\r\n"[..]].concat();
            for length in 0..bytes.len() {
                let expected = (length >= header_bytes.len()).then_some((header, header_bytes.len()));
                assert_eq!(ProxyHeader::parse(&bytes[..length]), Ok(expected), "{header:?} {length}");
            }
        }
    }
}

#[test]
fn only_version_2_describes_unix_clients() {
    let bytes = written(ProxyHeader::Unix, ProxyVersion::V2);
    assert_eq!(ProxyHeader::parse(&bytes), Ok(Some((ProxyHeader::Unix, 232))));
    assert_eq!(written(ProxyHeader::Unix, ProxyVersion::V1), b"PROXY UNKNOWN\r\n");
}

#[test]
fn version_1_is_a_text_line_as_specified() {
    let header = tcp("192.168.0.1:56324", "192.168.0.11:443");
    let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n";
    assert_eq!(written(header, ProxyVersion::V1), line);
}

#[test]
fn mixed_address_families_are_converted_to_one_family() {
    let mixed = written(tcp("192.0.2.1:1", "[2001:db8::2]:2"), ProxyVersion::V1);
    assert_eq!(mixed, b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n");
    let mapped = written(tcp("[::ffff:192.0.2.1]:1", "192.0.2.2:2"), ProxyVersion::V1);
    assert_eq!(mapped, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
}

#[test]
fn headers_without_a_client_address_are_accepted() {
    for bytes in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN ffff:f...f:ffff 65535 65535\r\n".to_vec(),
        v2(&[0x20, 0, 0, 0]),
        // `LOCAL`, with an undefined address family.
        v2(&[0x20, 0x77, 0, 1, 9]),
        v2(&[0x21, 0, 0, 3, 1, 2, 3]),
    ] {
        assert_eq!(ProxyHeader::parse(&bytes), Ok(Some((ProxyHeader::Local, bytes.len()))), "{bytes:?}");
    }
}

#[test]
fn additional_fields_are_skipped() {
    let mut bytes = v2(&[0x21, 0x11, 0, 17, 192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 0]);
    bytes.extend_from_slice(&[0x03, 0, 2, 7, 7, b'G']);
    let expected = tcp("192.0.2.1:80", "192.0.2.2:256");
    assert_eq!(ProxyHeader::parse(&bytes), Ok(Some((expected, bytes.len() - 1))));
}

#[test]
fn invalid_header_is_rejected_as_early_as_possible() {
    for (bytes, error) in [
        (b"G".to_vec(), InvalidProxyHeader::Missing),
        (b"PUT / HTTP/1.1\r\n".to_vec(), InvalidProxyHeader::Missing),
        (b"\r\n\r\nGET".to_vec(), InvalidProxyHeader::Missing),
        (b"PROXY \r\n".to_vec(), InvalidProxyHeader::Family),
        (b"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), InvalidProxyHeader::Family),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1  2\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n".to_vec(), InvalidProxyHeader::Address),
        (b"PROXY TCP4 \xff\r\n".to_vec(), InvalidProxyHeader::Address),
        ([b"PROXY UNKNOWN ".as_slice(), &[b'x'; 93]].concat(), InvalidProxyHeader::LineTooLong),
        (v2(&[0x11, 0x11, 0, 12]), InvalidProxyHeader::Version),
        (v2(&[0x22, 0, 0, 0]), InvalidProxyHeader::Command),
        (v2(&[0x21, 0x14, 0, 0]), InvalidProxyHeader::Family),
        (v2(&[0x21, 0x11, 0, 2, 1, 2]), InvalidProxyHeader::Address),
        (v2(&[0x21, 0x31, 0, 1, 1]), InvalidProxyHeader::Address),
        (v2(&[0x21, 0x11, 0xff, 0xff]), InvalidProxyHeader::TooLong),
    ] {
        assert_eq!(ProxyHeader::parse(&bytes), Err(error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn longest_version_1_line_is_accepted() {
    let address = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let line = format!("PROXY TCP6 {address} {address} 65535 65535\r\n");
    assert!(line.len() <= 107);
    assert!(matches!(ProxyHeader::parse(line.as_bytes()), Ok(Some((ProxyHeader::Tcp { .. }, _)))));
    let unknown = format!("PROXY UNKNOWN {address} {address} 65535 65535\r\n");
    assert_eq!(unknown.len(), 107);
    assert_eq!(ProxyHeader::parse(unknown.as_bytes()), Ok(Some((ProxyHeader::Local, 107))));
}
