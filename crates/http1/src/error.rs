//! Errors in messages: one variant for each rule that a message can break.

use core::fmt;

use thruway_message::StatusCode;

/// Creates [`Error`] from a table. Each row contains the name of a rule, the status of the server's response,
/// and the error message.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $status:ident $message:literal)*) => {
        /// A rule of RFC 9112 that the peer's message breaks, or a limit that the message exceeds. After any
        /// of these errors, the parser cannot find the next message, so the caller must close the connection.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name,)*
        }

        impl Error {
            /// Returns the status of the server's response to a request that breaks this rule.
            pub const fn status(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)*
                }
            }

            /// Returns the error message, for logs and for the body of the response.
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
    /// RFC 9112 §2.2: the byte after a CR is not an LF.
    BareCarriageReturn BAD_REQUEST "a carriage return must be followed by a line feed"
    /// RFC 9112 §2.2: an LF without a CR before it. RFC 9112 lets a recipient accept an LF without a CR as a
    /// line end, but this parser rejects it. For chunk lines, §7.1 of the RFC requires the CR.
    BareLineFeed BAD_REQUEST "a line must end with carriage return and line feed"
    /// RFC 9112 §7.1: a chunk contains more data than its chunk size says.
    ChunkDataPastSize BAD_REQUEST "chunk data must end where the chunk size says"
    /// RFC 9112 §7.1.1: a chunk extension contains a character that is not allowed.
    ChunkExtensionInvalid BAD_REQUEST "a chunk extension must be `;name` or `;name=value`"
    /// The chunk extensions exceed the limit `chunk_extension_bytes`.
    ChunkExtensionsTooLong BAD_REQUEST "chunk extensions are longer than allowed"
    /// RFC 9112 §7.1: the chunk size does not start with a hexadecimal digit.
    ChunkSizeInvalid BAD_REQUEST "a chunk size must be hexadecimal digits and nothing else"
    /// RFC 9112 §7.1: the chunk size does not fit into 64 bits, or has more than 16 digits.
    ChunkSizeOverflow BAD_REQUEST "a chunk size is too large"
    /// RFC 9112 §6.1: `chunked` is not the last transfer coding of a request.
    ChunkedNotFinal BAD_REQUEST "`chunked` must be the final transfer coding"
    /// RFC 9112 §6.1: `chunked` is applied more than once.
    ChunkedRepeated BAD_REQUEST "`chunked` must be applied only once"
    /// RFC 9110 §9.3.6: a CONNECT request has content. One recipient could read these bytes as content,
    /// and another recipient could read them as tunnel data.
    ConnectWithContent BAD_REQUEST "a CONNECT request must have no content"
    /// RFC 9110 §8.6: the value of `Content-Length` is not a decimal number. For example, the value is empty,
    /// signed or a list.
    ContentLengthInvalid BAD_REQUEST "`Content-Length` must be decimal digits and nothing else"
    /// RFC 9110 §8.6: the value of `Content-Length` does not fit into 64 bits.
    ContentLengthOverflow BAD_REQUEST "`Content-Length` is too large"
    /// RFC 9112 §6.3 rule 5: a message has several `Content-Length` lines. Lines with equal values are an
    /// error too.
    ContentLengthRepeated BAD_REQUEST "`Content-Length` must be given only once"
    /// The content exceeds the limit `content_bytes`.
    ContentTooLarge CONTENT_TOO_LARGE "content is larger than allowed"
    /// RFC 9110 §10.1.1: the `Expect` field contains an expectation other than `100-continue`.
    ExpectationUnknown EXPECTATION_FAILED "the only supported expectation is `100-continue`"
    /// The number of field lines exceeds the limit `field_lines`.
    FieldLinesTooMany REQUEST_HEADER_FIELDS_TOO_LARGE "more field lines than allowed"
    /// RFC 9110 §5.1: a field name is empty or is not a token.
    FieldNameInvalid BAD_REQUEST "a field name must be a token"
    /// RFC 9110 §5.5: a field value contains NUL or another control character.
    FieldValueInvalid BAD_REQUEST "a field value must not contain control characters"
    /// The header section exceeds the limit `header_section_bytes`.
    HeaderSectionTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "the header section is larger than allowed"
    /// RFC 9112 §3.2: the value of `Host` is not a host with an optional port.
    HostInvalid BAD_REQUEST "`Host` must be a host and an optional port"
    /// RFC 9112 §3.2: an HTTP/1.1 request has no `Host` field.
    HostMissing BAD_REQUEST "a request must have a `Host` field"
    /// RFC 9112 §3.2: a request has more than one `Host` field.
    HostRepeated BAD_REQUEST "a request must have only one `Host` field"
    /// RFC 9112 §8: the connection ended before the end of the message.
    IncompleteMessage BAD_REQUEST "the connection ended before the end of the message"
    /// The number of interim responses exceeds the limit `interim_responses`.
    InterimResponsesTooMany BAD_GATEWAY "more interim responses than allowed"
    /// RFC 9112 §5.2: a field line begins with whitespace, and so continues the previous line.
    LineFolding BAD_REQUEST "a field line must not be folded"
    /// RFC 9110 §9.1: the method is empty or is not a token.
    MethodInvalid BAD_REQUEST "a request line must begin with a method (a token) and a space"
    /// RFC 9112 §3: the method has more than 64 bytes. All known methods are shorter.
    MethodTooLong NOT_IMPLEMENTED "the method is longer than all known methods"
    /// RFC 9112 §3.2: the form of the target is not valid for the method, or the target has an invalid
    /// character.
    RequestTargetInvalid BAD_REQUEST "the request target is invalid"
    /// The request target exceeds the limit `request_target_bytes`.
    RequestTargetTooLong URI_TOO_LONG "the request target is longer than allowed"
    /// RFC 9112 §4: the line is not a status line, or its status code is not three digits.
    StatusLineInvalid BAD_GATEWAY "the status line is invalid"
    /// RFC 9110 §6.5.1: the trailer section contains a field that affects the framing or routing of the
    /// message.
    TrailerFieldForbidden BAD_REQUEST "a field for framing or routing must not appear in the trailer section"
    /// The trailer section exceeds the limit `trailer_section_bytes`.
    TrailerSectionTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "the trailer section is larger than allowed"
    /// RFC 9112 §6.1: a message uses a transfer coding other than `chunked`.
    TransferCodingUnknown NOT_IMPLEMENTED "the only supported transfer coding is `chunked`"
    /// RFC 9112 §6.1: an HTTP/1.0 message contains `Transfer-Encoding`. HTTP/1.0 does not define this
    /// field, so the message has faulty framing.
    TransferEncodingInHttp10 BAD_REQUEST "`Transfer-Encoding` must not be sent with HTTP/1.0"
    /// RFC 9112 §6.1 and §6.3 rule 3: a message contains both `Transfer-Encoding` and `Content-Length`.
    /// Attackers use such messages for request smuggling.
    TransferEncodingWithContentLength BAD_REQUEST "`Transfer-Encoding` and `Content-Length` must not be sent together"
    /// RFC 9112 §9.6: the server sent a message that the client did not request. The parser also returns this
    /// error for a 101 response to a request without an `Upgrade` field.
    UnexpectedMessage BAD_GATEWAY "a message arrived that was not requested"
    /// RFC 9112 §2.3: the version does not consist of `HTTP/`, a digit, a dot and a digit.
    VersionInvalid BAD_REQUEST "the request line must end with the HTTP version"
    /// RFC 9110 §2.5: the version is neither 1.0 nor 1.1.
    VersionNotSupported HTTP_VERSION_NOT_SUPPORTED "only HTTP/1.0 and HTTP/1.1 are supported on this connection"
    /// RFC 9112 §5.1: there is whitespace between the field name and the colon. Some parsers would ignore
    /// such a field.
    WhitespaceBeforeColon BAD_REQUEST "no whitespace is allowed between field name and colon"
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for Error {}
