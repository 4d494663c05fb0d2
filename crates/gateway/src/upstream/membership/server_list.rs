//! The list of an upstream's servers, and their round robin order.

use std::sync::Arc;

use crate::upstream::server::Server;

/// The servers of an upstream. When the addresses of the servers change, a new list replaces this list.
#[derive(Debug)]
pub(crate) struct ServerList {
    pub(crate) list: Box<[Arc<Server>]>,
    /// Indexes of the servers in round robin order. A server with twice the weight occurs twice as often.
    pub(crate) round: Box<[usize]>,
}

impl ServerList {
    pub(crate) fn new(list: impl IntoIterator<Item = Arc<Server>>) -> Self {
        let list: Box<[_]> = list.into_iter().collect();
        let weights: Vec<_> = list.iter().map(|server| server.weight).collect();
        Self { round: smooth_round(&weights), list }
    }

    /// Returns the number of unavailable servers, and the total number of servers. Both numbers include only
    /// servers that accept requests from new clients.
    pub(crate) fn out_of(&self, now: u64) -> (usize, usize) {
        let counted = self.list.iter().filter(|server| server.takes_new_clients());
        (counted.clone().filter(|server| !server.is_available(now)).count(), counted.count())
    }
}

/// Returns the round robin order for servers with `weights`. The order spreads the requests of each server
/// evenly. The algorithm is the smooth weighted round robin of nginx. In each step, every server gains credit
/// equal to its weight. The server with the highest credit comes next in the order, and the total weight is
/// subtracted from its credit.
fn smooth_round(weights: &[u32]) -> Box<[usize]> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<_> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
    let total: i64 = weights.iter().sum();
    let mut gained = vec![0; weights.len()];
    let step = |_| {
        gained.iter_mut().zip(&weights).for_each(|(gained, weight)| *gained += weight);
        // If several servers have the same credit, the first of them comes next. `max_by_key` returns the
        // last of several equal elements, so `rev` is necessary.
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

    #[test]
    fn round_robin_interleaves_servers_of_different_weight() {
        assert_eq!(*smooth_round(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(*smooth_round(&[2, 4]), [1, 0, 1]);
        assert_eq!(*smooth_round(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(*smooth_round(&[0, 3, 0]), [1]);
        assert!(smooth_round(&[]).is_empty() && smooth_round(&[0, 0]).is_empty());
    }
}
