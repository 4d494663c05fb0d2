//! Parses and writes headers of version 1, which are lines of text (§2.1). An example of such a line:
//!
//! `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::header::{InvalidProxyHeader, ProxyHeader, may_begin_with};

pub(super) fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, InvalidProxyHeader> {
    if !may_begin_with(bytes, START) {
        return Err(InvalidProxyHeader::Missing);
    }
    let most = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = most.windows(2).position(|pair| pair == b"\r\n") else {
        let is_full = bytes.len() >= LINE_BYTES_MAX;
        return if is_full { Err(InvalidProxyHeader::LineTooLong) } else { Ok(None) };
    };
    let line = str::from_utf8(&most[START.len()..end]).map_err(|_| InvalidProxyHeader::Address)?;
    Ok(Some((parse_line(line)?, end + 2)))
}

/// Parses the part of a line after `PROXY `, without the line end.
fn parse_line(line: &str) -> Result<ProxyHeader, InvalidProxyHeader> {
    let mut words = line.split(' ');
    let parse_ip: fn(&str) -> Option<IpAddr> = match words.next() {
        Some("TCP4") => |word| word.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        Some("TCP6") => |word| word.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        // The specification requires that the receiver ignores the remaining part of the line.
        Some("UNKNOWN") => return Ok(ProxyHeader::Local),
        _ => return Err(InvalidProxyHeader::Family),
    };
    let [ip, of_destination, port, port_of_destination] = [(); 4].map(|()| words.next().unwrap_or_default());
    let address = |ip, port| Some(SocketAddr::new(parse_ip(ip)?, parse_port(port)?));
    match (address(ip, port), address(of_destination, port_of_destination), words.next()) {
        (Some(source), Some(destination), None) => Ok(ProxyHeader::Tcp { source, destination }),
        _ => Err(InvalidProxyHeader::Address),
    }
}

/// Parses a port. Accepts only digits, without leading zeros.
fn parse_port(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if is_plain { word.parse().ok() } else { None }
}

/// Appends the header line to `output`. Writes `UNKNOWN` for clients of Unix sockets, because version 1
/// cannot describe such clients.
pub(super) fn write(header: ProxyHeader, output: &mut Vec<u8>) {
    let ProxyHeader::Tcp { source, destination } = header else {
        return output.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (ip, of_destination) = (source.ip(), destination.ip());
    let (port, port_of_destination) = (source.port(), destination.port());
    // Writing to a vector cannot fail.
    let _ = write!(output, "PROXY {family} {ip} {of_destination} {port} {port_of_destination}\r\n");
}

const START: &[u8] = b"PROXY ";

/// Maximum length of a line in bytes, including the line end.
const LINE_BYTES_MAX: usize = 107;
