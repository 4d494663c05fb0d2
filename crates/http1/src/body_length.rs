//! Determines the length of a received message body from the fields of the message (RFC 9112 §6.3).
//!
//! Only this module may read `Content-Length` and `Transfer-Encoding` of received messages. Code that sends a
//! message knows the length of the body without these fields.

use thruway_message::{Method, StatusCode, Version, list};

use crate::error::Error;

/// The rule that determines the end of a message body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyLength {
    /// The body has this number of bytes. 0 means that the message has no body.
    Bytes(u64),
    /// The body ends after the last chunk.
    Chunked,
    /// The body ends when the connection closes. Only responses can use this rule.
    UntilClose,
}

impl BodyLength {
    /// No body.
    pub const NONE: Self = Self::Bytes(0);

    /// Returns the length in bytes, or `None` if the length is not known in advance.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}

/// The kind of request that a response answers. The kinds differ in the framing of their responses (RFC 9112
/// §6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseTo {
    /// CONNECT. A successful response opens a tunnel.
    Connect,
    /// HEAD. The response has no content, regardless of its fields.
    Head,
    /// Any other method.
    Other,
}

impl From<Method<'_>> for ResponseTo {
    #[inline]
    fn from(method: Method<'_>) -> Self {
        match method {
            Method::Connect => Self::Connect,
            Method::Head => Self::Head,
            _ => Self::Other,
        }
    }
}

/// The fields of a message that determine its body length.
#[derive(Clone, Copy, Default)]
pub(crate) struct LengthFields {
    content_length: Option<u64>,
    transfer_encoding: Option<TransferCodings>,
}

#[derive(Clone, Copy, Default)]
struct TransferCodings {
    chunked_count: u32,
    unknown_count: u32,
    is_chunked_final: bool,
}

impl LengthFields {
    /// Records a `Content-Length` field line. Rejects a second line, even with the same value, because
    /// recipients could disagree about which line counts. RFC 9112 §6.3 rule 5 allows this rejection.
    pub(crate) fn observe_content_length(&mut self, value: &[u8]) -> Result<(), Error> {
        if self.content_length.is_some() {
            return Err(Error::ContentLengthRepeated);
        }
        self.content_length = Some(parse_content_length(value)?);
        Ok(())
    }

    /// Records a `Transfer-Encoding` field line. Several lines form one list (RFC 9110 §5.3).
    pub(crate) fn observe_transfer_encoding(&mut self, value: &[u8]) {
        let codings = self.transfer_encoding.get_or_insert_default();
        for coding in list::members(value) {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            codings.chunked_count = codings.chunked_count.saturating_add(u32::from(is_chunked));
            codings.unknown_count = codings.unknown_count.saturating_add(u32::from(!is_chunked));
            codings.is_chunked_final = is_chunked;
        }
    }

    /// Returns the body length of a request with these fields.
    #[inline]
    pub(crate) fn of_request(self, to: ResponseTo, version: Version) -> Result<BodyLength, Error> {
        let length = match self.transfer_encoding {
            None => BodyLength::Bytes(self.content_length.unwrap_or(0)),
            Some(codings) => {
                self.check_transfer_encoding(codings, version)?;
                match codings {
                    TransferCodings { is_chunked_final: false, .. } => return Err(Error::ChunkedNotFinal),
                    TransferCodings { unknown_count: 0, .. } => BodyLength::Chunked,
                    _ => return Err(Error::TransferCodingUnknown),
                }
            }
        };
        if to == ResponseTo::Connect && length != BodyLength::NONE {
            return Err(Error::ConnectWithContent);
        }
        Ok(length)
    }

    /// Returns the body length of a response with these fields (RFC 9112 §6.3, rules 1, 2 and 4 to 8).
    pub(crate) fn of_response(
        self,
        to: ResponseTo,
        status: StatusCode,
        version: Version,
    ) -> Result<BodyLength, Error> {
        // The fields must be valid even if the code below ignores them, because another recipient may use
        // them.
        let by_fields = match (self.transfer_encoding, self.content_length) {
            (None, None) => BodyLength::UntilClose,
            (None, Some(bytes)) => BodyLength::Bytes(bytes),
            (Some(codings), _) => {
                self.check_transfer_encoding(codings, version)?;
                match codings {
                    // `chunked` may mark the end of the body, but this crate cannot decode the unknown
                    // coding.
                    TransferCodings { unknown_count: 1.., .. } => return Err(Error::TransferCodingUnknown),
                    TransferCodings { is_chunked_final: true, .. } => BodyLength::Chunked,
                    _ => BodyLength::UntilClose,
                }
            }
        };
        match to {
            _ if status.is_without_content() => Ok(BodyLength::NONE),
            ResponseTo::Head => Ok(BodyLength::NONE),
            ResponseTo::Connect if status.is_success() => Ok(BodyLength::NONE),
            ResponseTo::Connect | ResponseTo::Other => Ok(by_fields),
        }
    }

    /// Checks the rules for transfer codings that apply to requests as well as responses.
    fn check_transfer_encoding(self, codings: TransferCodings, version: Version) -> Result<(), Error> {
        match codings {
            _ if version == Version::Http10 => Err(Error::TransferEncodingInHttp10),
            _ if self.content_length.is_some() => Err(Error::TransferEncodingWithContentLength),
            _ if codings.chunked_count > 1 => Err(Error::ChunkedRepeated),
            _ => Ok(()),
        }
    }
}

/// Parses `Content-Length = 1*DIGIT` (RFC 9110 §8.6).
///
/// # Errors
/// Returns an error if the value is not a decimal number, or does not fit into 64 bits.
pub fn parse_content_length(value: &[u8]) -> Result<u64, Error> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Error::ContentLengthInvalid);
    }
    value
        .iter()
        .try_fold(0u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(Error::ContentLengthOverflow)
}
