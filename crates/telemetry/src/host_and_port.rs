//! Splits the address of a server.

/// Returns the host and the port of an authority or of a server address in the config.
pub fn host_and_port(server: &str) -> (&str, Option<u16>) {
    let bytes = server.as_bytes();
    let (mut port, mut factor) = (0u32, 1);
    // A port has at most five digits.
    for (place, byte) in bytes.iter().enumerate().rev().take(6) {
        match byte {
            b'0'..=b'9' if factor <= 10_000 => {
                port += u32::from(byte - b'0') * factor;
                factor *= 10;
            }
            b':' if factor > 1 => {
                let host = &server[..place];
                let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                return (literal.unwrap_or(host), u16::try_from(port).ok());
            }
            _ => break,
        }
    }
    (server, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_separated() {
        for (server, expected) in [
            ("a.example:81", ("a.example", Some(81))),
            ("127.0.0.1:65535", ("127.0.0.1", Some(65_535))),
            ("[::1]:80", ("::1", Some(80))),
            ("a.example", ("a.example", None)),
            ("a:", ("a:", None)),
            ("a:123456", ("a:123456", None)),
            ("80", ("80", None)),
            ("", ("", None)),
        ] {
            assert_eq!(host_and_port(server), expected, "{server}");
        }
    }
}
