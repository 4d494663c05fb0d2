//! The errors of a message: one variant for each broken rule.

use core::fmt;

use thruway_message::StatusCode;

/// One row for each rule: its name, the status with which a server answers, and the message.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $status:ident $message:literal)*) => {
        /// A rule of RFC 9112, or a limit, that the peer's message breaks. After each of these errors, the
        /// following bytes have no meaning, so the connection must end.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name,)*
        }

        impl Error {
            /// The status with which a server answers a request that breaks this rule.
            pub const fn status(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)*
                }
            }

            /// Returns the rule in words, for logs and for the content of the response.
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)*
                }
            }

            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

errors! {
    /// RFC 9112 §2.2: a CR that no LF follows.
    BareCarriageReturn BAD_REQUEST "a carriage return must be followed by a line feed"
    /// RFC 9112 §2.2: an LF without a CR before it. It does not end a line here; §7.1 does not allow it at
    /// all.
    BareLineFeed BAD_REQUEST "a line must end with carriage return and line feed"
    /// RFC 9112 §7.1: the data continues after the end that the chunk size announces.
    ChunkDataPastSize BAD_REQUEST "chunk data must end where the chunk size says"
    /// RFC 9112 §7.1.1: a character that is not allowed in a chunk extension.
    ChunkExtensionInvalid BAD_REQUEST "a chunk extension must be `;name` or `;name=value`"
    /// Limit `chunk_extension_bytes`.
    ChunkExtensionsTooLong BAD_REQUEST "chunk extensions are longer than allowed"
    /// RFC 9112 §7.1: the chunk size does not start with a hexadecimal digit.
    ChunkSizeInvalid BAD_REQUEST "a chunk size must be hexadecimal digits and nothing else"
    /// RFC 9112 §7.1: the size does not fit into 64 bits, or has more than 16 digits.
    ChunkSizeOverflow BAD_REQUEST "a chunk size is too large"
    /// RFC 9112 §6.1: `chunked` is not the last transfer coding of a request.
    ChunkedNotFinal BAD_REQUEST "`chunked` must be the final transfer coding"
    /// RFC 9112 §6.1: chunked applied more than once.
    ChunkedRepeated BAD_REQUEST "`chunked` must be applied only once"
    /// RFC 9110 §9.3.6: CONNECT has no content. One recipient could read it as content, another as tunnel
    /// data.
    ConnectWithContent BAD_REQUEST "a CONNECT request must have no content"
    /// RFC 9110 §8.6: the value is not a decimal number, but for example empty, signed, or a list.
    ContentLengthInvalid BAD_REQUEST "`Content-Length` must be decimal digits and nothing else"
    /// RFC 9110 §8.6: the number does not fit into 64 bits.
    ContentLengthOverflow BAD_REQUEST "`Content-Length` is too large"
    /// RFC 9112 §6.3 rule 5: several lengths, equal or not.
    ContentLengthRepeated BAD_REQUEST "`Content-Length` must be given only once"
    /// Limit `content_bytes`.
    ContentTooLarge CONTENT_TOO_LARGE "content is larger than allowed"
    /// RFC 9110 §10.1.1: an expectation other than `100-continue`.
    ExpectationUnknown EXPECTATION_FAILED "the only supported expectation is `100-continue`"
    /// Limit `field_lines`.
    FieldLinesTooMany REQUEST_HEADER_FIELDS_TOO_LARGE "more field lines than allowed"
    /// RFC 9110 §5.1: a field name that is not a token, or empty.
    FieldNameInvalid BAD_REQUEST "a field name must be a token"
    /// RFC 9110 §5.5: NUL or another control character.
    FieldValueInvalid BAD_REQUEST "a field value must not contain control characters"
    /// Limit `header_section_bytes`.
    HeaderSectionTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "the header section is larger than allowed"
    /// RFC 9112 §3.2: the value is not a host with an optional port.
    HostInvalid BAD_REQUEST "`Host` must be a host and an optional port"
    /// RFC 9112 §3.2: none in a request of HTTP/1.1.
    HostMissing BAD_REQUEST "a request must have a `Host` field"
    /// RFC 9112 §3.2: more than one.
    HostRepeated BAD_REQUEST "a request must have only one `Host` field"
    /// RFC 9112 §8: the connection ended before the end of the message.
    IncompleteMessage BAD_REQUEST "the connection ended before the end of the message"
    /// Limit `interim_responses`.
    InterimResponsesTooMany BAD_GATEWAY "more interim responses than allowed"
    /// RFC 9112 §5.2: a line that begins with whitespace continues the one before.
    LineFolding BAD_REQUEST "a field line must not be folded"
    /// RFC 9110 §9.1: a method that is not a token, or empty.
    MethodInvalid BAD_REQUEST "a request line must begin with a method (a token) and a space"
    /// RFC 9112 §3: the method is longer than all known methods.
    MethodTooLong NOT_IMPLEMENTED "the method is longer than all known methods"
    /// RFC 9112 §3.2: the form is not valid for the method, or the target has an invalid character.
    RequestTargetInvalid BAD_REQUEST "the request target is invalid"
    /// Limit `request_target_bytes`.
    RequestTargetTooLong URI_TOO_LONG "the request target is longer than allowed"
    /// RFC 9112 §4: the status is not three digits, or the line is not a status line.
    StatusLineInvalid BAD_GATEWAY "the status line is invalid"
    /// RFC 9110 §6.5.1: a field in the trailer section that frames or routes the message.
    TrailerFieldForbidden BAD_REQUEST "a field for framing or routing must not appear in the trailer section"
    /// Limit `trailer_section_bytes`.
    TrailerSectionTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "the trailer section is larger than allowed"
    /// RFC 9112 §6.1: a transfer coding that is not implemented.
    TransferCodingUnknown NOT_IMPLEMENTED "the only supported transfer coding is `chunked`"
    /// RFC 9112 §6.1: HTTP/1.0 has no transfer codings; such a message has faulty framing.
    TransferEncodingInHttp10 BAD_REQUEST "`Transfer-Encoding` must not be sent with HTTP/1.0"
    /// RFC 9112 §6.1 and §6.3 rule 3: the signature of request smuggling.
    TransferEncodingWithContentLength BAD_REQUEST "`Transfer-Encoding` and `Content-Length` must not be sent together"
    /// RFC 9112 §9.6: bytes arrived although no message was expected.
    UnexpectedMessage BAD_GATEWAY "a message arrived that was not requested"
    /// RFC 9112 §2.3: the version does not have the form `HTTP/` digit `.` digit.
    VersionInvalid BAD_REQUEST "the request line must end with the HTTP version"
    /// RFC 9110 §2.5: neither 1.0 nor 1.1.
    VersionNotSupported HTTP_VERSION_NOT_SUPPORTED "only HTTP/1.0 and HTTP/1.1 are supported on this connection"
    /// RFC 9112 §5.1: whitespace that could hide a field from one of two parsers.
    WhitespaceBeforeColon BAD_REQUEST "no whitespace is allowed between field name and colon"
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for Error {}
