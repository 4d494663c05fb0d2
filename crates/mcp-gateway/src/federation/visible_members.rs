//! The members of which a caller can use at least one item. The other members stay invisible for the caller: the
//! caller gets neither their log messages nor their tasks.

use thruway_mcp::federated::ListKind;
use thruway_mcp_server::backend::Caller;
use tokio::join;

use super::catalog::Catalog;
use super::gateway_core::GatewayCore;
use super::rules::Access;

/// A set of members.
#[derive(Clone, Debug)]
pub(super) enum VisibleMembers {
    /// The gateway has no access rules.
    All,
    /// Contains `true` for each visible member, in the order of the members.
    Some(Box<[bool]>),
}

impl VisibleMembers {
    /// Returns the members of which `caller` can use at least one listed item. Waits for the lists of the members,
    /// but at most `list_wait`. Without access rules, returns all members immediately.
    pub(super) async fn of(gateway: &GatewayCore, caller: &Caller) -> Self {
        match gateway.access_of(caller) {
            None => Self::All,
            Some(access) => Self::Some(gateway.catalog.owners_of_visible(&access).await),
        }
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(visible) => visible.get(member).is_some_and(|is_visible| *is_visible),
        }
    }
}

impl Catalog {
    async fn owners_of_visible(&self, access: &Access<'_>) -> Box<[bool]> {
        let [one, two, three, four] = ListKind::ALL.map(|kind| self.fetch(kind));
        let members = join!(one, two, three, four).0.len();
        let mut visible = vec![false; members];
        for kind in ListKind::ALL {
            for entry in self.known(kind).all() {
                visible[entry.member] = visible[entry.member] || access.allows(kind, &entry.key);
            }
        }
        visible.into()
    }
}
