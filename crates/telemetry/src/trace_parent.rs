//! Trace ids, span ids, and the header `traceparent` (W3C Trace Context §3.2).

use std::fmt;

/// The id of a trace. All spans of a trace have the same trace id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub(crate) [u8; 16]);

/// The id of a span.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub(crate) [u8; 8]);

/// The value of the header `traceparent`: a trace, the span of the sender, and the sampling decision of the
/// sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: TraceId,
    /// The span that is the parent of the receiver's spans.
    pub span_id: SpanId,
    /// The trace flags. The lowest bit means that the trace is sampled.
    pub flags: u8,
}

/// Creates random ids. Each worker has its own generator, because a generator of the thread costs more
/// instructions per id. The ids are not secret.
#[derive(Clone, Debug, Default)]
pub struct IdGenerator(fastrand::Rng);

impl IdGenerator {
    #[inline]
    pub(crate) fn trace_id(&mut self) -> TraceId {
        TraceId::from_halves(self.0.u64(..), self.0.u64(..).max(1))
    }

    #[inline]
    pub(crate) fn span_id(&mut self) -> SpanId {
        SpanId(self.0.u64(..).max(1).to_be_bytes())
    }
}

impl TraceId {
    /// Returns a random id. The id is not secret.
    pub fn random() -> Self {
        IdGenerator::default().trace_id()
    }

    #[inline]
    const fn from_halves(high: u64, low: u64) -> Self {
        Self(((high as u128) << 64 | low as u128).to_be_bytes())
    }

    /// Returns the lower 64 bits, from which samplers derive their decision.
    pub(crate) fn low(self) -> u64 {
        self.0.last_chunk().map_or(0, |low| u64::from_be_bytes(*low))
    }

    /// Returns the id as 32 hexadecimal digits.
    pub fn to_hex(self) -> [u8; 32] {
        let mut text = [0; 32];
        write_hex(&self.0, &mut text);
        text
    }
}

impl SpanId {
    /// Returns a random id. The id is not secret.
    #[inline]
    pub fn random() -> Self {
        IdGenerator::default().span_id()
    }

    /// Returns the id of the next span in the same trace. Starting at a random id, all ids of a trace differ.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        let next = u64::from_be_bytes(self.0).wrapping_add(ID_STEP);
        Self(if next == 0 { ID_STEP } else { next }.to_be_bytes())
    }

    /// Returns the id as 16 hexadecimal digits.
    pub fn to_hex(self) -> [u8; 16] {
        let mut text = [0; 16];
        write_hex(&self.0, &mut text);
        text
    }
}

impl TraceParent {
    /// The name of the header.
    pub const FIELD_NAME: &str = "traceparent";

    /// Length of the value that [`to_bytes`](Self::to_bytes) returns.
    pub const BYTES: usize = 55;

    /// Length of the line that [`to_line`](Self::to_line) returns.
    pub const LINE_BYTES: usize = VALUE_AT + Self::BYTES + 2;

    /// Position of the span id in the line that [`to_line`](Self::to_line) returns.
    pub const SPAN_AT: usize = VALUE_AT + 36;

    /// Parses a value of the header. Returns `None` if the value is malformed, so the receiver must start a
    /// new trace. Accepts later versions, and ignores the parts that they add (W3C Trace Context §4.3).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_at_checked(Self::BYTES)?;
        let [version] = bytes_of::<1>(&known[..2])?;
        let has_separators = known[2] == b'-' && known[35] == b'-' && known[52] == b'-';
        let is_length_valid = if version == 0 { rest.is_empty() } else { matches!(rest, [] | [b'-', ..]) };
        if version == INVALID_VERSION || !has_separators || !is_length_valid {
            return None;
        }
        let trace_id: [u8; 16] = bytes_of(&known[3..35])?;
        let span_id: [u8; 8] = bytes_of(&known[36..52])?;
        let [flags] = bytes_of::<1>(&known[53..])?;
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Self {
            trace_id: TraceId(trace_id),
            span_id: SpanId(span_id),
            flags: flags & KNOWN_FLAGS,
        })
    }

    /// Returns the value for the header, in version 00.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut text = [0; Self::BYTES];
        text.copy_from_slice(&self.to_line()[VALUE_AT..VALUE_AT + Self::BYTES]);
        text
    }

    /// Returns the header in the format of HTTP/1.1: the name, the value in version 00, and CRLF.
    #[inline]
    pub fn to_line(self) -> [u8; Self::LINE_BYTES] {
        let mut line = *b"traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r\n";
        write_hex(&self.trace_id.0, &mut line[VALUE_AT + 3..VALUE_AT + 35]);
        write_hex(&self.span_id.0, &mut line[Self::SPAN_AT..Self::SPAN_AT + 16]);
        line[VALUE_AT + 54] = b'0' + (self.flags & KNOWN_FLAGS);
        line
    }

    /// Returns `true` if the sender has sampled the trace.
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the value that names `span_id` as the parent.
    pub const fn with_span(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }
}

/// Returns the bytes of `N` pairs of hexadecimal digits. Upper-case digits are invalid.
fn bytes_of<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

const fn digit(text: u8) -> Option<u8> {
    match text {
        b'0'..=b'9' => Some(text - b'0'),
        b'a'..=b'f' => Some(text - b'a' + 10),
        _ => None,
    }
}

/// Writes the digits of `bytes`, whose number is a multiple of four.
#[inline]
fn write_hex(bytes: &[u8], text: &mut [u8]) {
    for (number, digits) in bytes.as_chunks::<4>().0.iter().zip(text.as_chunks_mut::<8>().0) {
        *digits = hex_digits(u32::from_le_bytes(*number));
    }
}

/// Returns the hexadecimal digits of the four bytes of `number`, beginning with the lowest byte. Computes all
/// digits together: each byte of a word is one digit. The code has no multiplication and no branch, so the
/// compiler can compute the digits of two numbers with one vector instruction.
#[inline]
const fn hex_digits(number: u32) -> [u8; 8] {
    let mut digits = number as u64;
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits >> 4 | digits << 8) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte whose digit is a letter
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let to_letter = ((letters << 7) - letters) & 0x2727_2727_2727_2727;
    (digits + 0x3030_3030_3030_3030 + to_letter).to_le_bytes()
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Difference between successive span ids of a trace: an odd number without a pattern (the golden ratio).
const ID_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Position of the value in the header line.
const VALUE_AT: usize = 13;

/// The flag of a sampled trace.
pub(crate) const SAMPLED: u8 = 1;

/// The flags that this crate passes on: `sampled`, and `random-trace-id` of Trace Context Level 2.
const KNOWN_FLAGS: u8 = 3;

/// The version that W3C Trace Context §3.2.2.1 forbids.
const INVALID_VERSION: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn valid_trace_parent_round_trips() {
        let parent = TraceParent::parse(VALID.as_bytes()).unwrap();
        assert_eq!(parent.trace_id.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id.to_string(), "b7ad6b7169203331");
        assert!(parent.is_sampled());
        assert_eq!(parent.to_bytes(), VALID.as_bytes());
        assert_eq!(parent.to_line(), format!("traceparent: {VALID}\r\n").as_bytes());
        assert_eq!(parent.trace_id.to_hex(), parent.trace_id.to_string().as_bytes());
        assert_eq!(parent.span_id.to_hex(), parent.span_id.to_string().as_bytes());
    }

    #[test]
    fn malformed_trace_parent_is_rejected() {
        let malformed = [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-001",
            // version 00 has no further parts
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            // the forbidden version
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            // a later version without a separator after the flags
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
            // upper-case digits, and characters that are not digits
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
            "0A-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333 -01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
            "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            // ids of zeros
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            // wrong separators and lengths
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01,00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ];
        for text in malformed {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn later_versions_are_accepted_and_sent_as_version_00() {
        for text in [
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-will-be-like",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fd",
        ] {
            let parent = TraceParent::parse(text.as_bytes()).unwrap();
            assert_eq!(parent.to_bytes(), VALID.as_bytes(), "{text}");
        }
    }

    #[test]
    fn unknown_flags_are_cleared() {
        let flags = |flags: &str| {
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            TraceParent::parse(text.as_bytes()).unwrap().flags
        };
        assert_eq!(["00", "01", "02", "03", "04", "ff"].map(flags), [0, 1, 2, 3, 0, 3]);
    }

    #[test]
    fn all_bytes_have_two_lower_case_digits() {
        for byte in 0..=u8::MAX {
            let text = SpanId([byte, 0, 1, byte, 0xff, byte, 0x9a, 0xf0]).to_hex();
            assert_eq!(str::from_utf8(&text), Ok(&*format!("{byte:02x}0001{byte:02x}ff{byte:02x}9af0")));
        }
    }

    #[test]
    fn next_ids_differ_and_are_valid() {
        assert_eq!(SpanId(0u64.wrapping_sub(ID_STEP).to_be_bytes()).next(), SpanId(ID_STEP.to_be_bytes()));
        let ids: Vec<_> =
            std::iter::successors(Some(SpanId::random()), |id| Some(id.next())).take(64).collect();
        assert!(ids.iter().enumerate().all(|(place, id)| !ids[..place].contains(id)));
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(TraceId::random(), TraceId::random());
        assert_ne!(SpanId::random(), SpanId::random());
    }
}
