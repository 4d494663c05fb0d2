//! Splits: divide the requests of a route among several handlers, for example for canary releases.

use std::sync::Arc;

use thruway_server::{Answer, Handler, Request};

use crate::HashBy;
use crate::upstream::mix;

/// Divides requests among handlers in proportion to the weights of the handlers. The split selects the
/// handler of a request at random, or by the key of the request. Requests with the same key go to the same
/// handler.
///
/// Each handler has a range of numbers. The size of the range is the weight of the handler. The split scales
/// the hash of a key to one of these numbers, and the range with this number determines the handler. If
/// weights change but their sum stays the same, only the borders of the ranges move, so most keys keep their
/// handler.
pub struct Split {
    /// The handlers. The number after each handler is the exclusive end of its range of numbers.
    sides: Vec<(Arc<dyn Handler>, u64)>,
    by: Option<HashBy>,
}

impl Split {
    /// Returns a split among the handlers in `sides`, each with its weight. `by` selects the key of a
    /// request. Requests without the key are divided at random. If `by` is `None`, all requests are divided
    /// at random.
    ///
    /// # Panics
    /// Panics if all weights are 0.
    pub fn new(sides: impl IntoIterator<Item = (Arc<dyn Handler>, u32)>, by: Option<HashBy>) -> Self {
        let mut end = 0;
        let sides: Vec<_> = sides
            .into_iter()
            .map(|(handler, weight)| {
                end += u64::from(weight);
                (handler, end)
            })
            .collect();
        assert!(end > 0, "a split needs a handler with a weight above 0");
        Self { sides, by }
    }

    /// Returns the handler for a request with this key, as an index in `sides`.
    fn side(&self, key: Option<u64>) -> usize {
        let total = self.sides.last().map_or(0, |(_, end)| *end);
        let point = match key {
            Some(key) => scaled(mix(key ^ SALT), total),
            None => fastrand::u64(..total),
        };
        self.sides.partition_point(|(_, end)| *end <= point)
    }
}

/// Scales `number`, which can be any `u64`, to a number below `bound`.
fn scaled(number: u64, bound: u64) -> u64 {
    let product = u128::from(number) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(0)
}

impl Handler for Split {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let key = self.by.as_ref().and_then(|by| by.hash(request));
        self.sides[self.side(key)].0.handle(request)
    }
}

/// A constant that changes the hash of a key. An upstream may select its server by the hash of the same key,
/// and both choices must be independent.
const SALT: u64 = 0x7377_6974_6368_6564;

#[cfg(test)]
mod tests {
    use thruway_server::IntoHandler;
    use thruway_testkit::test_server::TestServer;

    use super::*;

    fn split(weights: [u32; 3], by: Option<HashBy>) -> Split {
        let handler = |name: &'static str| (move || name).into_handler();
        Split::new([handler("a"), handler("b"), handler("c")].into_iter().zip(weights), by)
    }

    fn counts(split: &Split, keys: impl Iterator<Item = Option<u64>>) -> [usize; 3] {
        let mut counts = [0; 3];
        keys.for_each(|key| counts[split.side(key)] += 1);
        counts
    }

    #[test]
    fn shares_follow_weights() {
        let split = split([5, 0, 95], None);
        for counts in [counts(&split, (0..10_000).map(Some)), counts(&split, (0..10_000).map(|_| None))] {
            assert!((400..600).contains(&counts[0]) && counts[1] == 0, "{counts:?}");
            assert_eq!(counts[0] + counts[2], 10_000);
        }
    }

    #[test]
    fn keys_stay_on_a_side_when_its_weight_grows() {
        let (small, large) = (split([5, 0, 95], None), split([10, 0, 90], None));
        let moved = |key: &u64| small.side(Some(*key)) != large.side(Some(*key));
        assert!((0..10_000).filter(|key| small.side(Some(*key)) == 0).all(|key| large.side(Some(key)) == 0));
        let moved = (0..10_000).filter(moved).count();
        assert!((400..600).contains(&moved), "{moved}");
    }

    #[test]
    fn same_key_always_gets_same_side() {
        let by = Some(HashBy::Cookie("user".to_owned()));
        let scene = TestServer::new(split([50, 0, 50], by).into_handler());
        let mut sides = std::collections::BTreeMap::new();
        for turn in 0..3 {
            for user in 0..20 {
                let mut client = scene.connect();
                client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: user={user}\r\n\r\n"));
                let side = client.received().split("\r\n\r\n").nth(1).unwrap().to_owned();
                assert_eq!(*sides.entry(user).or_insert_with(|| side.clone()), side, "{turn}");
            }
        }
        assert!(["a", "c"].iter().all(|side| sides.values().any(|of| of == side)), "{sides:?}");
    }

    #[test]
    #[should_panic = "needs a handler with a weight"]
    fn split_without_weights_panics() {
        let _ = split([0; 3], None);
    }
}
