//! Ways to cut an input into pieces.

use thruway_http1::Limits;

use super::{Reader, Transcript};
use crate::Random;

/// The pieces of an input, in order.
pub type Pieces<'i> = Vec<&'i [u8]>;

/// Reads `input` whole and in each of the `ways` to cut it, and returns the transcript, which is always the
/// same.
///
/// # Panics
/// It was not the same.
pub fn assert_cuts_do_not_matter<'i>(
    reader: &Reader,
    limits: Limits,
    input: &'i [u8],
    ways: impl IntoIterator<Item = Pieces<'i>>,
) -> Transcript {
    let whole = Transcript::read(reader, limits, [input]);
    for pieces in ways {
        let sizes: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
        let cut = Transcript::read(reader, limits, pieces);
        assert_eq!(whole, cut, "\n{}\ncut into {sizes:?}:\n{cut}\nwhole:\n{whole}\n", input.escape_ascii());
    }
    whole
}

/// Splits the input into pieces of 1 byte, of 2, and so on up to `size_max`.
pub fn sizes(input: &[u8], size_max: usize) -> impl Iterator<Item = Pieces<'_>> {
    (1..=size_max).map(|size| input.chunks(size).collect())
}

/// Two pieces, cut at every place.
pub fn every_single_cut(input: &[u8]) -> impl Iterator<Item = Pieces<'_>> {
    (0..=input.len()).map(|place| {
        let (first, second) = input.split_at(place);
        vec![first, second]
    })
}

/// A few random cuts, `times` over; some pieces may be empty.
pub fn random_cuts<'i>(
    input: &'i [u8],
    random: &mut Random,
    times: usize,
) -> impl Iterator<Item = Pieces<'i>> {
    (0..times).map(move |_| {
        let mut places: Vec<usize> = (0..=random.below(6)).map(|_| random.below(input.len() + 1)).collect();
        places.sort_unstable();
        let mut rest = input;
        let mut start = 0;
        let mut pieces = Pieces::new();
        for place in places {
            let (piece, after) = rest.split_at(place - start);
            (start, rest) = (place, after);
            pieces.push(piece);
        }
        pieces.push(rest);
        pieces
    })
}
