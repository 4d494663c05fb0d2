//! Counts ends of header sections in a stream of bytes that arrives in pieces.

use memchr::memmem;

const END: &[u8] = b"\r\n\r\n";

/// Counts request heads. Remembers an end that is split between two pieces.
#[derive(Default)]
pub(crate) struct RequestEnds {
    /// Length of the part of `END` at the end of the previous input: 0 to 3.
    matched: usize,
}

impl RequestEnds {
    /// Counts the ends in `input`, including one that began in an earlier piece.
    pub(crate) fn count(&mut self, input: &[u8]) -> usize {
        let (mut n, mut rest) = (0, input);
        if self.matched > 0 {
            let (found, used) = self.resume(input);
            n += usize::from(found);
            rest = &input[used..];
        }
        while let Some(at) = memmem::find(rest, END) {
            n += 1;
            rest = &rest[at + END.len()..];
        }
        self.matched = self.matched.max(unfinished(rest));
        n
    }

    /// Continues an end that began in an earlier piece. Returns `true` if the end is now complete, and the
    /// number of bytes of `input` that belong to it.
    fn resume(&mut self, input: &[u8]) -> (bool, usize) {
        let missing = &END[self.matched..];
        let same = missing.iter().zip(input).take_while(|(a, b)| a == b).count();
        let (found, ran_out) = (same == missing.len(), same == input.len());
        self.matched = if found || !ran_out { 0 } else { self.matched + same };
        // After a mismatch, another end may begin in the same bytes, so the caller searches these bytes
        // again.
        (found, if found || ran_out { same } else { 0 })
    }
}

/// Returns the length of the longest proper prefix of `END` at the end of `bytes`.
fn unfinished(bytes: &[u8]) -> usize {
    (1..END.len()).rev().find(|&n| bytes.ends_with(&END[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::RequestEnds;

    #[test]
    fn request_count_does_not_depend_on_how_input_is_split() {
        let input = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\n\r\nGET";
        for first in 0..input.len() {
            for second in first..input.len() {
                let mut ends = RequestEnds::default();
                let n = ends.count(&input[..first])
                    + ends.count(&input[first..second])
                    + ends.count(&input[second..]);
                assert_eq!(n, 2, "split at {first} and {second}");
            }
        }
    }
}
