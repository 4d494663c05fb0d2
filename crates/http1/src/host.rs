//! The `Host` field of a request (RFC 9112 §3.2, RFC 9110 §7.2).

use alloc::vec::Vec;

use thruway_message::{Authority, Version};

use crate::error::Error;

/// The value of the request's `Host` field, or `None` if the parser has not found this field yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct HostField<'i> {
    value: Option<&'i [u8]>,
}

/// The most recent valid host. Almost all requests to a server have the same host, and comparing two
/// hosts is cheaper than parsing a host.
#[derive(Default)]
pub(crate) struct KnownHost {
    bytes: Vec<u8>,
}

impl<'i> HostField<'i> {
    /// Records a `Host` field line.
    #[inline]
    pub(crate) fn observe(&mut self, value: &'i [u8]) -> Result<(), Error> {
        if self.value.replace(value).is_some() { Err(Error::HostRepeated) } else { Ok(()) }
    }

    /// Returns an error for an invalid host, and for an HTTP/1.1 request without a `Host` field.
    #[inline]
    pub(crate) fn check(self, version: Version, known: &mut KnownHost) -> Result<(), Error> {
        match self.value {
            Some(value) if value == known.bytes => Ok(()),
            Some(value) => known.check(value),
            None if version == Version::Http10 => Ok(()),
            None => Err(Error::HostMissing),
        }
    }
}

impl KnownHost {
    fn check(&mut self, value: &[u8]) -> Result<(), Error> {
        if !Authority::is_valid(value) {
            return Err(Error::HostInvalid);
        }
        if value.len() <= KNOWN_BYTES_MAX {
            self.bytes.clear();
            self.bytes.extend_from_slice(value);
        }
        Ok(())
    }
}

/// Maximum length of a stored host, in bytes: a DNS name, a colon and a port.
const KNOWN_BYTES_MAX: usize = 255 + 6;
