//! Combines the field lines that affect the framing of a request. Also reads the `Connection` options of
//! requests and responses.

use thruway_message::token::is_in_any_case;
use thruway_message::{Version, list};

use crate::body_length::{BodyLength, LengthFields, ResponseTo};
use crate::error::Error;
use crate::head_index::HeadIndex;
use crate::host::HostField;

/// The request fields that affect the framing of the request and the reuse of the connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestFields<'i> {
    host: HostField<'i>,
    length: LengthFields,
    connection: ConnectionOptions,
    expects_continue: bool,
    has_upgrade: bool,
}

impl<'i> RequestFields<'i> {
    /// Records one field line.
    #[inline]
    pub(crate) fn observe(&mut self, name: &[u8], value: &'i [u8]) -> Result<(), Error> {
        match name.len() {
            4 if is_in_any_case(name, b"host") => self.host.observe(value)?,
            6 if is_in_any_case(name, b"expect") => self.observe_expect(value)?,
            7 if is_in_any_case(name, b"upgrade") => self.has_upgrade = true,
            10 if is_in_any_case(name, b"connection") => self.connection.observe(value),
            14 if is_in_any_case(name, b"content-length") => self.length.observe_content_length(value)?,
            17 if is_in_any_case(name, b"transfer-encoding") => self.length.observe_transfer_encoding(value),
            _ => {}
        }
        Ok(())
    }

    /// Records `Expect: 100-continue`. Returns an error for any other expectation (RFC 9110 §10.1.1).
    #[cold]
    fn observe_expect(&mut self, value: &[u8]) -> Result<(), Error> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Error::ExpectationUnknown);
        }
        self.expects_continue = true;
        Ok(())
    }

    /// Computes the request facts from all field lines, and stores the facts in `index`. `index` must already
    /// contain the request line of `input`.
    #[inline]
    pub(crate) fn settle(&self, index: &mut HeadIndex, input: &[u8]) -> Result<(), Error> {
        let version = index.request_line.version;
        let response_to = ResponseTo::from(index.request_line.method(input));
        self.host.check(version, &mut index.known_host)?;
        let body_length = self.length.of_request(response_to, version)?;
        let is_http11 = version == Version::Http11;
        // Separate assignments are faster than building a new value and copying it.
        let facts = &mut index.facts;
        facts.version = version;
        facts.response_to = response_to;
        facts.body_length = body_length;
        facts.is_persistent = self.connection.is_persistent(version);
        // A client that sends no content has no reason to wait for `100 (Continue)`. HTTP/1.0 has no interim
        // responses.
        facts.expects_continue = self.expects_continue && is_http11 && body_length != BodyLength::NONE;
        facts.wants_tunnel = response_to == ResponseTo::Connect
            || (self.has_upgrade && self.connection.is_upgrade() && is_http11);
        Ok(())
    }
}

/// The `Connection` options that this crate uses. `close` and `keep-alive` determine if the connection stays
/// open after a message (RFC 9112 §9.3).
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnectionOptions {
    is_close: bool,
    is_keep_alive: bool,
    is_upgrade: bool,
}

impl ConnectionOptions {
    /// Records a `Connection` field line.
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

    /// Returns `true` if the sender of a message keeps the connection open, according to these options
    /// and the HTTP version of the message.
    #[inline]
    pub(crate) fn is_persistent(self, version: Version) -> bool {
        match version {
            _ if self.is_close => false,
            Version::Http10 => self.is_keep_alive,
            _ => true,
        }
    }

    /// Returns `true` if the options contain `upgrade`. Without this option, recipients ignore the
    /// `Upgrade` field (RFC 9110 §7.8).
    #[inline]
    pub(crate) fn is_upgrade(self) -> bool {
        self.is_upgrade
    }
}
