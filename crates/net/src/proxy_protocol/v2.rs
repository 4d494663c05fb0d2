//! Parses and writes headers of version 2, which are binary (§2.2).
//!
//! ```text
//! 0            12      13                14       16
//! │ signature  │ version, command │ family, kind │ length │ addresses, additional fields …
//! ```

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::header::{InvalidProxyHeader, ProxyHeader, may_begin_with};

pub(super) fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, InvalidProxyHeader> {
    if !may_begin_with(bytes, SIGNATURE) {
        return Err(InvalidProxyHeader::Missing);
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() else { return Ok(None) };
    let [.., version_and_command, family, high, low] = *fixed;
    if version_and_command >> 4 != 2 {
        return Err(InvalidProxyHeader::Version);
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > LENGTH_MAX {
        return Err(InvalidProxyHeader::TooLong);
    }
    let Some(block) = rest.get(..length) else { return Ok(None) };
    let header = match version_and_command & 0xf {
        // The specification requires that the receiver ignores the addresses of a `LOCAL` header.
        0 => ProxyHeader::Local,
        1 => parse_addresses(family, block)?,
        _ => return Err(InvalidProxyHeader::Command),
    };
    Ok(Some((header, FIXED_BYTES + length)))
}

/// Parses the addresses at the start of `block`.
fn parse_addresses(family: u8, block: &[u8]) -> Result<ProxyHeader, InvalidProxyHeader> {
    let header = match family {
        UNSPECIFIED => Some(ProxyHeader::Local),
        TCP4 => tcp::<4, Ipv4Addr>(block),
        TCP6 => tcp::<16, Ipv6Addr>(block),
        UNIX_STREAM => block.first_chunk::<UNIX_BYTES>().map(|_| ProxyHeader::Unix),
        _ => return Err(InvalidProxyHeader::Family),
    };
    header.ok_or(InvalidProxyHeader::Address)
}

/// Parses two IP addresses of `N` bytes each, and their ports.
fn tcp<const N: usize, I>(block: &[u8]) -> Option<ProxyHeader>
where
    SocketAddr: From<(I, u16)>,
    I: From<[u8; N]>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port_of_destination = rest.first_chunk()?;
    let address = |ip: &[u8; N], port| SocketAddr::from((I::from(*ip), u16::from_be_bytes(port)));
    Some(ProxyHeader::Tcp {
        source: address(source, *port),
        destination: address(destination, *port_of_destination),
    })
}

pub(super) fn write(header: ProxyHeader, output: &mut Vec<u8>) {
    output.extend_from_slice(SIGNATURE);
    match header {
        ProxyHeader::Local => output.extend_from_slice(&[LOCAL, UNSPECIFIED, 0, 0]),
        ProxyHeader::Unix => {
            output.extend_from_slice(&[PROXY, UNIX_STREAM, 0, 216]);
            output.resize(output.len() + UNIX_BYTES, 0);
        }
        ProxyHeader::Tcp { source: SocketAddr::V4(source), destination: SocketAddr::V4(destination) } => {
            output.extend_from_slice(&[PROXY, TCP4, 0, 12]);
            output.extend_from_slice(&source.ip().octets());
            output.extend_from_slice(&destination.ip().octets());
            write_ports(source.port(), destination.port(), output);
        }
        ProxyHeader::Tcp { source, destination } => {
            output.extend_from_slice(&[PROXY, TCP6, 0, 36]);
            for address in [source, destination] {
                output.extend_from_slice(&to_v6(address).octets());
            }
            write_ports(source.port(), destination.port(), output);
        }
    }
}

fn to_v6(address: SocketAddr) -> Ipv6Addr {
    match address {
        SocketAddr::V4(address) => address.ip().to_ipv6_mapped(),
        SocketAddr::V6(address) => *address.ip(),
    }
}

fn write_ports(source: u16, destination: u16, output: &mut Vec<u8>) {
    output.extend_from_slice(&source.to_be_bytes());
    output.extend_from_slice(&destination.to_be_bytes());
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_BYTES: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

/// Length of the two paths of a Unix header, in bytes. Each path has 108 bytes.
const UNIX_BYTES: usize = 216;

/// Maximum length of the addresses and additional fields, in bytes. Proxies add a few hundred bytes about
/// TLS, host names and checksums. The length field of the header allows 64 KiB, but a client could then
/// make the server allocate 64 KiB for each connection.
const LENGTH_MAX: usize = 4 << 10;
