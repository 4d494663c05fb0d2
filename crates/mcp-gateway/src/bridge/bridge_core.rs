//! The state of a bridge: the server behind it in both eras, and the calls that go through it.

use std::fmt;
use std::sync::Arc;

use thruway_mcp::schema::ServerCapabilities;
use thruway_mcp::{Era, Revision};
use thruway_mcp_server::backend::DroppedMessages;

use super::far_side::{FarSide, LegacyFarSide};
use super::suspended::{CallsInFlight, Suspended};
use super::upstreams::Connector;

/// The far side of a server.
pub(super) struct BridgeCore {
    /// The server for clients of the modern era, in the modern era if it speaks that.
    pub(super) far_side: Arc<FarSide>,
    /// The server for clients of the legacy era, if it speaks both eras.
    pub(super) legacy_far_side: LegacyFarSide,
    pub(super) connector: Connector,
    pub(super) shares_subscriptions: bool,
    pub(super) suspended: Arc<Suspended>,
    pub(super) calls: CallsInFlight,
    pub(super) dropped: Arc<DroppedMessages>,
}

impl BridgeCore {
    /// Returns the era that the server speaks with clients of the modern era.
    pub(super) fn era(&self) -> Era {
        self.far_side.era()
    }

    /// Returns the server for clients of `near`. Clients of the legacy era meet it in the legacy era if it
    /// speaks that: some servers ask their client only there.
    pub(super) fn far_side(&self, near: Era) -> &Arc<FarSide> {
        match near {
            Era::Legacy => self.legacy_far_side.get().unwrap_or(&self.far_side),
            Era::Modern => &self.far_side,
        }
    }

    /// Returns the server for a session of the legacy era that begins. If the server could not be asked so
    /// far whether it speaks that era, it is asked for later sessions.
    pub(super) fn far_side_of_session(self: &Arc<Self>) -> &Arc<FarSide> {
        if self.legacy_far_side.is_undecided() {
            let bridge = self.clone();
            tokio::spawn(async move { bridge.probe_legacy_era().await });
        }
        self.far_side(Era::Legacy)
    }

    pub(super) async fn probe_legacy_era(&self) {
        let is_on_stream = self.far_side.upstreams.are_on_stream();
        self.legacy_far_side.probe(&self.connector, is_on_stream).await;
    }

    pub(super) fn far_sides(&self) -> impl Iterator<Item = &Arc<FarSide>> {
        [&self.far_side].into_iter().chain(self.legacy_far_side.get())
    }

    /// Returns the capabilities of the server for clients that speak `near`.
    pub(super) fn capabilities(&self, near: Revision) -> ServerCapabilities {
        self.far_side(near.era()).capabilities(near)
    }

    /// Begins to hear of lists that change, for clients of the modern era.
    pub(super) async fn watch_lists(&self) {
        self.far_side.watch_lists().await;
    }
}

impl fmt::Debug for BridgeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeCore").field("far_side", &self.far_side).finish_non_exhaustive()
    }
}
