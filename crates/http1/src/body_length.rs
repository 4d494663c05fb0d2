//! How long a message body is: the only place that knows (RFC 9112 §6.3).
//!
//! For messages that come, from their fields; for messages that go, from what the sender knows. No other code
//! may look at `Content-Length` or `Transfer-Encoding`.

use thruway_message::{Method, StatusCode, Version, list};

use crate::error::Error;

/// How the end of a message body is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyLength {
    /// After this many octets; there is no body if it is 0.
    Octets(u64),
    /// After the last chunk.
    Chunked,
    /// When the connection ends. Responses only.
    UntilClose,
}

impl BodyLength {
    /// No body.
    pub const NONE: Self = Self::Octets(0);

    /// The length, where it is known beforehand.
    pub const fn octets(self) -> Option<u64> {
        match self {
            Self::Octets(octets) => Some(octets),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}

/// What kind of request a response answers, as far as its framing depends on it (RFC 9112 §6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseTo {
    /// CONNECT: a success opens a tunnel.
    Connect,
    /// HEAD: there is no content, whatever the fields say.
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

/// What the fields of a message say about its body.
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
    /// Takes note of a `Content-Length` field line. A second one is refused even if it says the same: which
    /// of them another recipient believes is not known (RFC 9112 §6.3 rule 5 allows it).
    pub(crate) fn observe_content_length(&mut self, value: &[u8]) -> Result<(), Error> {
        if self.content_length.is_some() {
            return Err(Error::ContentLengthRepeated);
        }
        self.content_length = Some(parse_content_length(value)?);
        Ok(())
    }

    /// Takes note of a `Transfer-Encoding` field line; several lines are one list (RFC 9110 §5.3).
    pub(crate) fn observe_transfer_encoding(&mut self, value: &[u8]) {
        let codings = self.transfer_encoding.get_or_insert_default();
        for coding in list::members(value) {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            codings.chunked_count = codings.chunked_count.saturating_add(u32::from(is_chunked));
            codings.unknown_count = codings.unknown_count.saturating_add(u32::from(!is_chunked));
            codings.is_chunked_final = is_chunked;
        }
    }

    /// The body of a request with these fields, which is answered by a response `to` it.
    #[inline]
    pub(crate) fn of_request(self, to: ResponseTo, version: Version) -> Result<BodyLength, Error> {
        let length = match self.transfer_encoding {
            None => BodyLength::Octets(self.content_length.unwrap_or(0)),
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

    /// The body of a response with these fields (rules 1, 2, 4 to 8).
    pub(crate) fn of_response(
        self,
        to: ResponseTo,
        status: StatusCode,
        version: Version,
    ) -> Result<BodyLength, Error> {
        // The fields must be sound even where they are not used: somebody else may use them.
        let by_fields = match (self.transfer_encoding, self.content_length) {
            (None, None) => BodyLength::UntilClose,
            (None, Some(octets)) => BodyLength::Octets(octets),
            (Some(codings), _) => {
                self.check_transfer_encoding(codings, version)?;
                match codings {
                    // The end would be known, but what comes before it is not content until it is decoded.
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

    /// What is wrong with a message with `codings`, whichever its role.
    fn check_transfer_encoding(self, codings: TransferCodings, version: Version) -> Result<(), Error> {
        match codings {
            _ if version == Version::Http10 => Err(Error::TransferEncodingInHttp10),
            _ if self.content_length.is_some() => Err(Error::TransferEncodingWithContentLength),
            _ if codings.chunked_count > 1 => Err(Error::ChunkedRepeated),
            _ => Ok(()),
        }
    }
}

/// `Content-Length = 1*DIGIT` (RFC 9110 §8.6).
///
/// # Errors
/// It is no such number, or one that nothing can have.
pub fn parse_content_length(value: &[u8]) -> Result<u64, Error> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Error::ContentLengthInvalid);
    }
    value
        .iter()
        .try_fold(0u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(Error::ContentLengthOverflow)
}
