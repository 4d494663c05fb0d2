//! Which server gets the next request.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Server, ServerConfig};

/// How the next server is found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Balance {
    /// One after the other, each as often as its weight says, and evenly spread.
    #[default]
    RoundRobin,
    /// The one that is answering the fewest requests, in relation to its weight.
    LeastConnections,
}

/// How the next server is found, and what is remembered for it.
#[derive(Debug)]
pub(super) enum Selection {
    RoundRobin {
        /// Places in the order of one round.
        round: Box<[usize]>,
        next: AtomicUsize,
    },
    LeastConnections {
        /// Where to begin to look, so that not all workers take the first of equals.
        next: AtomicUsize,
    },
}

impl Selection {
    pub(super) fn new(balance: Balance, servers: &[ServerConfig]) -> Self {
        let next = AtomicUsize::new(0);
        match balance {
            Balance::RoundRobin => {
                let weights: Vec<_> = servers.iter().map(|server| server.weight).collect();
                Self::RoundRobin { round: smooth_round(&weights), next }
            }
            Balance::LeastConnections => Self::LeastConnections { next },
        }
    }

    pub(super) fn select(&self, servers: &[Server], tried: &[usize]) -> Option<usize> {
        self.select_among(servers, |place| !tried.contains(&place))
            .or_else(|| self.select_among(servers, |_| !tried.is_empty()))
    }

    fn select_among(&self, servers: &[Server], may_be: impl Fn(usize) -> bool) -> Option<usize> {
        match self {
            Self::RoundRobin { round, next } => {
                let start = next.fetch_add(1, Ordering::Relaxed);
                (0..round.len())
                    .map(|n| round[start.wrapping_add(n) % round.len()])
                    .find(|&place| may_be(place))
            }
            Self::LeastConnections { next } => {
                let start = next.fetch_add(1, Ordering::Relaxed);
                let places = (0..servers.len()).map(|n| start.wrapping_add(n) % servers.len());
                places
                    .filter(|&place| servers[place].weight > 0 && may_be(place))
                    .min_by(|&a, &b| compare_load(&servers[a], &servers[b]))
            }
        }
    }
}

/// Compares requests for each unit of weight, without dividing.
fn compare_load(a: &Server, b: &Server) -> std::cmp::Ordering {
    let load = |of: &Server, other: &Server| of.in_flight() as u64 * u64::from(other.weight);
    load(a, b).cmp(&load(b, a))
}

/// One round in which every server has its turns as far apart as can be: in each step all gain their weight, and the one
/// with the most pays what all have gained (the smooth weighted round robin of nginx).
fn smooth_round(weights: &[u32]) -> Box<[usize]> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<_> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
    let total: i64 = weights.iter().sum();
    let mut gained = vec![0; weights.len()];
    let step = |_| {
        gained.iter_mut().zip(&weights).for_each(|(gained, weight)| *gained += weight);
        // The first of equals: `max_by_key` would take the last.
        let most = (0..weights.len())
            .rev()
            .filter(|&place| weights[place] > 0)
            .max_by_key(|&place| gained[place])?;
        gained[most] -= total;
        Some(most)
    };
    (0..total).filter_map(step).collect()
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(weights: &[u32]) -> Vec<ServerConfig> {
        let address = || "127.0.0.1:1".parse().unwrap();
        weights.iter().map(|&weight| ServerConfig { address: address(), weight }).collect()
    }

    fn selected(balance: Balance, weights: &[u32], tried: &[usize], n: usize) -> Vec<Option<usize>> {
        let configs = servers(weights);
        let selection = Selection::new(balance, &configs);
        let servers: Vec<_> = configs.iter().map(Server::new).collect();
        (0..n).map(|_| selection.select(&servers, tried)).collect()
    }

    #[test]
    fn a_round_spreads_the_turns_of_a_heavy_server() {
        assert_eq!(*smooth_round(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(*smooth_round(&[2, 4]), [1, 0, 1]);
        assert_eq!(*smooth_round(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(*smooth_round(&[0, 3, 0]), [1]);
        assert!(smooth_round(&[]).is_empty() && smooth_round(&[0, 0]).is_empty());
    }

    #[test]
    fn servers_without_weight_get_nothing() {
        for balance in [Balance::RoundRobin, Balance::LeastConnections] {
            assert_eq!(selected(balance, &[0, 1], &[], 2), [Some(1), Some(1)]);
            assert_eq!(selected(balance, &[0, 0], &[], 1), [None]);
            assert_eq!(selected(balance, &[], &[], 1), [None]);
        }
    }

    #[test]
    fn a_server_that_was_tried_is_tried_again_only_if_there_is_no_other() {
        for balance in [Balance::RoundRobin, Balance::LeastConnections] {
            assert_eq!(selected(balance, &[1, 1], &[0], 3), [Some(1); 3]);
            assert_eq!(selected(balance, &[1], &[0], 1), [Some(0)]);
        }
    }

    #[test]
    fn the_server_with_the_fewest_requests_for_its_weight_is_next() {
        let configs = servers(&[1, 3]);
        let selection = Selection::new(Balance::LeastConnections, &configs);
        let servers: Vec<_> = configs.iter().map(Server::new).collect();
        let mut counts = [0; 2];
        for _ in 0..40 {
            let place = selection.select(&servers, &[]).unwrap();
            servers[place].begin_for_test();
            counts[place] += 1;
        }
        assert_eq!(counts, [10, 30]);
    }
}
