//! The admin state of a server, which the operator sets at run time.

use std::sync::atomic::{AtomicU8, Ordering};

/// The admin state of a server, which does not depend on its health. Requests in flight complete in every
/// admin state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum AdminState {
    /// The server gets requests.
    #[default]
    Enabled,
    /// The server gets only requests with a sticky cookie for this server, as with the weight 0.
    Draining,
    /// The server gets no requests, even if no other server is available.
    Disabled,
}

/// An [`AdminState`] that all workers share.
#[derive(Debug, Default)]
pub(crate) struct AdminStateCell(AtomicU8);

impl AdminStateCell {
    #[inline]
    pub(crate) fn get(&self) -> AdminState {
        match self.0.load(Ordering::Relaxed) {
            DRAINING => AdminState::Draining,
            DISABLED => AdminState::Disabled,
            _ => AdminState::Enabled,
        }
    }

    pub(crate) fn set(&self, state: AdminState) {
        self.0.store(state as u8, Ordering::Relaxed);
    }
}

const DRAINING: u8 = AdminState::Draining as u8;
const DISABLED: u8 = AdminState::Disabled as u8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::scene::Scene;
    use crate::upstream::{Balance, HashBy, RequestKey};

    fn balances() -> [Balance; 5] {
        [
            Balance::RoundRobin,
            Balance::LeastConnections,
            Balance::RandomOfTwo,
            Balance::PeakEwma,
            Balance::Hash { by: HashBy::Path, load_max_percent: 100_000 },
        ]
    }

    #[test]
    fn disabled_or_draining_server_gets_no_requests_with_any_balance() {
        for (balance, state) in
            balances().into_iter().zip([AdminState::Disabled, AdminState::Draining].repeat(3))
        {
            let scene = Scene::new(balance, &[1, 1, 1]);
            scene.server(1).health().set_admin_state(state);
            assert!((0..60).all(|key| scene.place_of_key(key) != 1), "{state:?}");
        }
    }

    #[test]
    fn disabled_servers_get_no_requests_even_if_all_are_disabled() {
        let scene = Scene::new(Balance::RoundRobin, &[1, 1]);
        (0..2).for_each(|place| scene.server(place).health().set_admin_state(AdminState::Disabled));
        assert!(scene.slot_for(&RequestKey::default(), &[]).is_none());
        assert!(!scene.upstream.has_server());
        scene.server(0).health().set_admin_state(AdminState::Enabled);
        assert_eq!(scene.counts_of_short(4), [4, 0]);
        assert!(scene.upstream.has_server());
    }

    #[test]
    fn sticky_cookie_finds_a_draining_but_not_a_disabled_server() {
        let config = crate::upstream::UpstreamConfig {
            sticky: Some(crate::upstream::Sticky::new("c")),
            ..Scene::config(Balance::RoundRobin, &[1, 1])
        };
        let scene = Scene::with(config);
        let key = RequestKey { sticky: Some(scene.server(0).token), ..RequestKey::default() };
        let place = |scene: &Scene| scene.place_of(&scene.slot_for(&key, &[]).unwrap());
        scene.server(0).health().set_admin_state(AdminState::Draining);
        assert_eq!([place(&scene), place(&scene)], [0, 0]);
        scene.server(0).health().set_admin_state(AdminState::Disabled);
        assert_eq!([place(&scene), place(&scene)], [1, 1]);
    }
}
