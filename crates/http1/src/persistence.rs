//! Whether a connection goes on after a message (RFC 9112 §9.3).

use thruway_message::token::is_in_any_case;
use thruway_message::{Version, list};

/// The options of the `Connection` fields that matter here.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnectionOptions {
    is_close: bool,
    is_keep_alive: bool,
    is_upgrade: bool,
}

impl ConnectionOptions {
    /// Takes note of a `Connection` field line.
    #[inline]
    pub(crate) fn observe(&mut self, value: &[u8]) {
        if is_in_any_case(value, b"keep-alive") {
            self.is_keep_alive = true;
            return;
        }
        for option in list::members(value) {
            self.is_close |= is_in_any_case(option, b"close");
            self.is_keep_alive |= is_in_any_case(option, b"keep-alive");
            self.is_upgrade |= is_in_any_case(option, b"upgrade");
        }
    }

    /// Whether the sender of a message in `version` with these options lets the connection go on.
    #[inline]
    pub(crate) fn is_persistent(self, version: Version) -> bool {
        match version {
            _ if self.is_close => false,
            Version::Http10 => self.is_keep_alive,
            _ => true,
        }
    }

    /// Whether the `Upgrade` field counts (RFC 9110 §7.8).
    #[inline]
    pub(crate) fn is_upgrade(self) -> bool {
        self.is_upgrade
    }
}
