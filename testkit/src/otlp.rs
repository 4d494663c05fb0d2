//! Decodes exported spans (OTLP), independently of the encoder.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A decoded span. Ids are hexadecimal.
#[derive(Clone, Default, Debug)]
pub struct DecodedSpan {
    /// The trace.
    pub trace_id: String,
    /// The id of the span.
    pub span_id: String,
    /// The parent, or an empty text.
    pub parent: String,
    /// The `tracestate`.
    pub state: String,
    /// The name.
    pub name: String,
    /// The kind: 1 is internal, 2 is server, 3 is client.
    pub kind: u64,
    /// Start and end in nanoseconds since the Unix epoch.
    pub nanos: (u64, u64),
    /// The attributes. Integers are decimal.
    pub attributes: BTreeMap<String, String>,
    /// `true` if the status is an error.
    pub is_error: bool,
    /// The flags.
    pub flags: u64,
}

/// Decodes an `ExportTraceServiceRequest`. Returns the attributes of its resource, and its spans.
///
/// # Panics
/// Panics if the message is malformed.
pub fn decode_request(message: &[u8]) -> (BTreeMap<String, String>, Vec<DecodedSpan>) {
    let (mut resource, mut spans) = (BTreeMap::new(), Vec::new());
    for (_, of_resource) in messages(message, 1) {
        for (_, attributes) in messages(of_resource, 1) {
            resource = attributes_in(attributes, 1);
        }
        for (_, of_scope) in messages(of_resource, 2) {
            spans.extend(decode_spans(of_scope));
        }
    }
    (resource, spans)
}

/// Decodes the entries of `ScopeSpans.spans`, which a span queue contains.
///
/// # Panics
/// Panics if the entries are malformed.
pub fn decode_spans(entries: &[u8]) -> Vec<DecodedSpan> {
    messages(entries, 2).map(|(_, span)| decode_span(span)).collect()
}

fn decode_span(message: &[u8]) -> DecodedSpan {
    let mut span = DecodedSpan { attributes: attributes_in(message, 9), ..DecodedSpan::default() };
    for (number, field) in fields(message) {
        match (number, field) {
            (1, Field::Bytes(id)) => span.trace_id = hexadecimal(id),
            (2, Field::Bytes(id)) => span.span_id = hexadecimal(id),
            (3, Field::Bytes(state)) => span.state = text(state),
            (4, Field::Bytes(id)) => span.parent = hexadecimal(id),
            (5, Field::Bytes(name)) => span.name = text(name),
            (6, Field::Integer(kind)) => span.kind = kind,
            (7, Field::Integer(nanos)) => span.nanos.0 = nanos,
            (8, Field::Integer(nanos)) => span.nanos.1 = nanos,
            (15, Field::Bytes(status)) => {
                span.is_error = fields(status).any(|field| matches!(field, (3, Field::Integer(2))));
            }
            (16, Field::Integer(flags)) => span.flags = flags,
            _ => {}
        }
    }
    span
}

pub(crate) fn attributes_in(message: &[u8], number: u64) -> BTreeMap<String, String> {
    let attribute = |(_, attribute)| {
        let (mut name, mut value) = (String::new(), String::new());
        for (number, field) in fields(attribute) {
            match (number, field) {
                (1, Field::Bytes(key)) => name = text(key),
                (2, Field::Bytes(any)) => {
                    for (number, field) in fields(any) {
                        match (number, field) {
                            (1, Field::Bytes(bytes)) => value = text(bytes),
                            (2, Field::Integer(integer)) => value = (integer != 0).to_string(),
                            (3, Field::Integer(integer)) => value = integer.to_string(),
                            _ => panic!("unexpected kind of value in {name}"),
                        }
                    }
                }
                _ => panic!("unexpected field in an attribute"),
            }
        }
        (name, value)
    };
    messages(message, number).map(attribute).collect()
}

pub(crate) enum Field<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

/// Returns the messages in the fields with this number.
pub(crate) fn messages(message: &[u8], wanted: u64) -> impl Iterator<Item = (u64, &[u8])> {
    fields(message).filter_map(move |(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some((number, bytes)),
        _ => None,
    })
}

pub(crate) fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let tag = varint(&mut rest);
        let field = match tag & 7 {
            0 => Field::Integer(varint(&mut rest)),
            1 => Field::Integer(fixed(&mut rest, 8)),
            2 => {
                let length = usize::try_from(varint(&mut rest)).unwrap();
                let (bytes, after) = rest.split_at(length);
                rest = after;
                Field::Bytes(bytes)
            }
            5 => Field::Integer(fixed(&mut rest, 4)),
            other => panic!("unexpected wire type {other}"),
        };
        Some((tag >> 3, field))
    })
}

fn varint(rest: &mut &[u8]) -> u64 {
    let end = rest.iter().position(|byte| byte & 0x80 == 0).expect("a varint ends");
    let (bytes, after) = rest.split_at(end + 1);
    *rest = after;
    bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

fn fixed(rest: &mut &[u8], length: usize) -> u64 {
    let (bytes, after) = rest.split_at(length);
    *rest = after;
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("texts are UTF-8")
}
