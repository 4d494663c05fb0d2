//! For how many connections a process has descriptors.

use rustix::process::{Resource, getrlimit};

/// How many a process may have; nothing where there is no limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How many a process needs that has so many connections.
pub(crate) fn needed(connections: u32) -> u64 {
    u64::from(connections) + BESIDES
}

/// For how many clients a process has room that takes `each` descriptors for one of them; nothing where there is no limit.
pub(crate) fn room_for_clients(each: u64) -> Option<u32> {
    limit().map(|limit| room_within(limit, each))
}

fn room_within(limit: u64, each: u64) -> u32 {
    let clients = limit.saturating_sub(BESIDES) / each;
    u32::try_from(clients.max(1)).unwrap_or(u32::MAX)
}

/// Besides those of the connections.
const BESIDES: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_two_for_each_client_has_room_for_half_as_many() {
        assert_eq!(room_within(20_000, 1), 19_936);
        assert_eq!(room_within(20_000, 2), 9_968);
        assert_eq!((room_within(10, 2), room_within(u64::MAX, 2)), (1, u32::MAX));
        assert_eq!(needed(10_000), 10_064);
    }
}
