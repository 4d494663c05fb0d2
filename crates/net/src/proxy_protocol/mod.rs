//! The PROXY protocol, versions 1 and 2: the header in which a proxy tells who its client is, before the
//! first octet of anything else. Additional fields (TLVs) of version 2 are passed over; checksums among them
//! are not looked at.
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
    /// Reads the header at the start of `octets`, and how long it is; `None` if it has not wholly arrived.
    ///
    /// # Errors
    /// There is none, or it breaks a rule.
    pub fn parse(octets: &[u8]) -> Result<Option<(Self, usize)>, InvalidProxyHeader> {
        match octets.first() {
            None => Ok(None),
            Some(b'P') => v1::parse(octets),
            Some(b'\r') => v2::parse(octets),
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
