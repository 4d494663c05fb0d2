//! The `Host` field of a request (RFC 9112 §3.2, RFC 9110 §7.2).

use thruway_message::{Authority, Version};

use crate::Error;

/// How many `Host` fields were seen.
#[derive(Clone, Copy, Default)]
pub(crate) struct HostField {
    is_given: bool,
}

impl HostField {
    /// Takes note of a `Host` field line.
    #[inline]
    pub(crate) fn observe(&mut self, value: &[u8]) -> Result<(), Error> {
        if self.is_given {
            return Err(Error::HostRepeated);
        }
        self.is_given = true;
        if Authority::is_valid(value) { Ok(()) } else { Err(Error::HostInvalid) }
    }

    /// Refuses a request of HTTP/1.1 without a host.
    #[inline]
    pub(crate) fn check(self, version: Version) -> Result<(), Error> {
        if self.is_given || version == Version::Http10 { Ok(()) } else { Err(Error::HostMissing) }
    }
}
