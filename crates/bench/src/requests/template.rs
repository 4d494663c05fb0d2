//! Text with placeholders. `{n}` becomes the number of the request. `{random}` becomes 16 hexadecimal
//! digits, which differ from request to request.

/// A text that was split at its placeholders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Number,
    Random,
}

impl Template {
    /// Splits `bytes` at its placeholders. Leaves other text in braces as it is.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut pieces = Vec::new();
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            let Some((piece, length)) = placeholder(&bytes[at..]) else {
                at += 1;
                continue;
            };
            pieces.push(Piece::Bytes(bytes[start..at].to_vec()));
            pieces.push(piece);
            at += length;
            start = at;
        }
        pieces.push(Piece::Bytes(bytes[start..].to_vec()));
        pieces.retain(|piece| *piece != Piece::Bytes(Vec::new()));
        Self(pieces)
    }

    /// Returns `true` if the text has no placeholders.
    pub(super) fn is_fixed(&self) -> bool {
        !self.0.iter().any(|piece| matches!(piece, Piece::Number | Piece::Random))
    }

    /// Returns the length of the text for request `number`.
    pub(super) fn length(&self, number: u64) -> u64 {
        let lengths = self.0.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Number => u64::from(number.checked_ilog10().unwrap_or(0)) + 1,
            Piece::Random => 16,
        });
        lengths.sum()
    }

    /// Appends the text for request `number` to `output`.
    pub(super) fn write(&self, number: u64, output: &mut Vec<u8>) {
        // All `{random}` placeholders of a request get the same value, so that the head and the body can
        // contain the same text.
        let random = mixed(number);
        for piece in &self.0 {
            match piece {
                Piece::Bytes(bytes) => output.extend_from_slice(bytes),
                Piece::Number => write_number(output, number),
                Piece::Random => output.extend((0..16).rev().map(|digit| hex_digit(random >> (digit * 4)))),
            }
        }
    }
}

fn placeholder(bytes: &[u8]) -> Option<(Piece, usize)> {
    let known: [(&[u8], Piece); 2] = [(b"{n}", Piece::Number), (b"{random}", Piece::Random)];
    known.into_iter().find(|(text, _)| bytes.starts_with(text)).map(|(text, piece)| (piece, text.len()))
}

pub(super) fn write_number(output: &mut Vec<u8>, number: u64) {
    let start = output.len();
    let mut left = number;
    loop {
        output.push(b'0' + (left % 10) as u8);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    output[start..].reverse();
}

fn hex_digit(value: u64) -> u8 {
    b"0123456789abcdef"[(value & 0xf) as usize]
}

/// Returns a pseudorandom number that depends only on `number`. Uses the finalizer of `SplitMix64`.
pub(super) const fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, number: u64) -> String {
        let mut output = Vec::new();
        let template = Template::new(text.as_bytes());
        template.write(number, &mut output);
        assert_eq!(template.length(number), output.len() as u64);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        assert_eq!(written("/a/{n}?b={n}", 1204), "/a/1204?b=1204");
        assert_eq!(written("{n}", 0), "0");
        assert_eq!(written(r#"{"a":{"n":1}}"#, 7), r#"{"a":{"n":1}}"#);
        assert_eq!(written("{}{n", 7), "{}{n");
        assert!(Template::new(b"{m}").is_fixed() && !Template::new(b"a{random}").is_fixed());
    }

    #[test]
    fn random_value_differs_between_requests_but_not_within_one() {
        let one = written("{random}-{random}", 1);
        let (first, second) = one.split_once('-').unwrap();
        assert!(first == second && first.len() == 16);
        assert_ne!(one, written("{random}-{random}", 2));
        assert_eq!(one, written("{random}-{random}", 1));
    }
}
