//! Implements versions 1 and 2 of the PROXY protocol. On each connection, a proxy sends a header with the
//! address of its client before all other bytes. The parser skips the additional fields (TLVs) of version
//! 2, and does not verify their checksums.
//!
//! <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>

mod header;
mod v1;
mod v2;
mod receive;

#[cfg(test)]
mod tests;

pub use header::{InvalidProxyHeader, ProxyHeader, ProxyVersion};
pub use receive::{ReceiveError, receive_proxy_header};

impl ProxyHeader {
    /// Parses the header at the start of `bytes`. Returns the header and its length in bytes, or `None` if
    /// the header is incomplete.
    ///
    /// # Errors
    /// The header is missing or malformed.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, InvalidProxyHeader> {
        match bytes.first() {
            None => Ok(None),
            Some(b'P') => v1::parse(bytes),
            Some(b'\r') => v2::parse(bytes),
            Some(_) => Err(InvalidProxyHeader::Missing),
        }
    }

    /// Appends the header to `output`.
    pub fn write(self, version: ProxyVersion, output: &mut Vec<u8>) {
        match version {
            ProxyVersion::V1 => v1::write(self.of_one_family(), output),
            ProxyVersion::V2 => v2::write(self.of_one_family(), output),
        }
    }
}
