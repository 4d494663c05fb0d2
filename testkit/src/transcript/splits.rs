//! Ways to split an input into pieces.

use thruway_http1::Limits;

use super::{Reader, Transcript};
use crate::Random;

/// The pieces of an input, in order.
pub type Pieces<'i> = Vec<&'i [u8]>;

/// Parses `input` as a whole and with each of `splits`. Returns the transcript.
///
/// # Panics
/// Panics if the transcript depends on the split.
pub fn assert_same_for_all_splits<'i>(
    reader: &Reader,
    limits: Limits,
    input: &'i [u8],
    splits: impl IntoIterator<Item = Pieces<'i>>,
) -> Transcript {
    let whole = Transcript::read(reader, limits, [input]);
    for pieces in splits {
        let sizes: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
        let split = Transcript::read(reader, limits, pieces);
        assert_eq!(
            whole,
            split,
            "\n{}\nsplit into {sizes:?}:\n{split}\nwhole:\n{whole}\n",
            input.escape_ascii()
        );
    }
    whole
}

/// Splits the input into pieces of 1 byte, then of 2 bytes, and so on up to `size_max`.
pub fn fixed_size_splits(input: &[u8], size_max: usize) -> impl Iterator<Item = Pieces<'_>> {
    (1..=size_max).map(|size| input.chunks(size).collect())
}

/// Splits the input into two pieces, at each possible position.
pub fn two_piece_splits(input: &[u8]) -> impl Iterator<Item = Pieces<'_>> {
    (0..=input.len()).map(|position| {
        let (first, second) = input.split_at(position);
        vec![first, second]
    })
}

/// Returns `times` random splits into two to seven pieces. Pieces can be empty.
pub fn random_splits<'i>(
    input: &'i [u8],
    random: &mut Random,
    times: usize,
) -> impl Iterator<Item = Pieces<'i>> {
    (0..times).map(move |_| {
        let mut positions: Vec<usize> =
            (0..=random.below(6)).map(|_| random.below(input.len() + 1)).collect();
        positions.sort_unstable();
        let mut rest = input;
        let mut start = 0;
        let mut pieces = Pieces::new();
        for position in positions {
            let (piece, after) = rest.split_at(position - start);
            (start, rest) = (position, after);
            pieces.push(piece);
        }
        pieces.push(rest);
        pieces
    })
}
