//! How the input is cut into pieces makes no difference: the first thing that goes wrong in parsers.

use thruway_testkit::Random;
use thruway_testkit::transcript::{assert_cuts_do_not_matter, every_single_cut, random_cuts, sizes};

use crate::generate;
use crate::samples;

#[test]
fn events_do_not_depend_on_how_input_is_split() {
    let mut random = Random::new(1);
    for sample in samples::all() {
        // All cuts of a long input would take long, and show no more than those of a short one.
        let single = every_single_cut(&sample.input).step_by(sample.input.len() / 256 + 1);
        let ways = sizes(&sample.input, 20).chain(single).chain(random_cuts(&sample.input, &mut random, 20));
        assert_cuts_do_not_matter(&sample.reader, sample.limits, &sample.input, ways);
    }
}

#[test]
fn damaged_input_does_not_depend_on_how_it_is_split() {
    let mut random = Random::new(2);
    for sample in samples::all() {
        for _ in 0..12 {
            let mut input = sample.input.clone();
            for _ in 0..=random.below(2) {
                generate::damage(&mut input, &mut random);
            }
            let ways = sizes(&input, 3).chain(random_cuts(&input, &mut random, 6));
            assert_cuts_do_not_matter(&sample.reader, sample.limits, &input, ways);
        }
    }
}

#[test]
fn spliced_input_does_not_depend_on_how_it_is_split() {
    let mut random = Random::new(3);
    let samples = samples::all();
    for sample in &samples {
        for _ in 0..6 {
            let other = random.pick(&samples);
            let (head, _) = sample.input.split_at(random.below(sample.input.len() + 1));
            let (_, tail) = other.input.split_at(random.below(other.input.len() + 1));
            let input = [head, tail].concat();
            let ways = sizes(&input, 3).chain(random_cuts(&input, &mut random, 6));
            assert_cuts_do_not_matter(&sample.reader, sample.limits, &input, ways);
        }
    }
}
