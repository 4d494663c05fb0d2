//! What the connection must know of a request while it is answered.

use thruway_message::Version;
use thruway_message::token::is_in_any_case;

use crate::body_length::LengthFields;
use crate::host::HostField;
use crate::persistence::ConnectionOptions;
use crate::{BodyLength, Error, HeadIndex, ResponseTo};

/// What of a request decides how its response is framed and what becomes of the connection. Small, and free of
/// the request's octets, so that it can be kept until the response is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestFacts {
    /// The version the client speaks.
    pub version: Version,
    /// What kind of request the response answers.
    pub response_to: ResponseTo,
    /// How the end of the request's body is found.
    pub body_length: BodyLength,
    /// Whether the client and the limits let the connection go on after the response (RFC 9112 §9.3).
    pub is_persistent: bool,
    /// Whether the client waits for `100 (Continue)` before it sends the content (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// Whether the client asks for another protocol, or for a tunnel: what follows the request may not be HTTP
    /// (RFC 9110 §7.8 and §9.3.6).
    pub wants_tunnel: bool,
}

impl RequestFacts {
    /// A request of HTTP/1.1 without content.
    pub(crate) const PLAIN: Self = Self {
        version: Version::Http11,
        response_to: ResponseTo::Other,
        body_length: BodyLength::NONE,
        is_persistent: true,
        expects_continue: false,
        wants_tunnel: false,
    };

    /// Whether the request is a CONNECT.
    pub const fn is_connect(&self) -> bool {
        matches!(self.response_to, ResponseTo::Connect)
    }
}

/// What the field lines of a request say, gathered while they are parsed.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestFields<'i> {
    host: HostField<'i>,
    length: LengthFields,
    connection: ConnectionOptions,
    expects_continue: bool,
    has_upgrade: bool,
}

impl<'i> RequestFields<'i> {
    /// Takes note of one field line.
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

    /// `Expect: 100-continue`, and nothing else (RFC 9110 §10.1.1).
    #[cold]
    fn observe_expect(&mut self, value: &[u8]) -> Result<(), Error> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Error::ExpectationUnknown);
        }
        self.expects_continue = true;
        Ok(())
    }

    /// Puts what all lines together say of the request in `input`, whose request line is in `index`, there too.
    #[inline]
    pub(crate) fn settle(&self, index: &mut HeadIndex, input: &[u8]) -> Result<(), Error> {
        let version = index.request_line.version;
        let response_to = ResponseTo::from(index.request_line.method(input));
        self.host.check(version, &mut index.known_host)?;
        let body_length = self.length.of_request(response_to, version)?;
        let is_http11 = version == Version::Http11;
        // One by one, as the request line.
        let facts = &mut index.facts;
        facts.version = version;
        facts.response_to = response_to;
        facts.body_length = body_length;
        facts.is_persistent = self.connection.is_persistent(version);
        // A request without content has nothing to wait for, and HTTP/1.0 has no interim responses.
        facts.expects_continue = self.expects_continue && is_http11 && body_length != BodyLength::NONE;
        facts.wants_tunnel = response_to == ResponseTo::Connect
            || (self.has_upgrade && self.connection.is_upgrade() && is_http11);
        Ok(())
    }
}
