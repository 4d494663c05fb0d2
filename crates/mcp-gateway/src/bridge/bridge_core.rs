//! The state of a bridge: the server behind it in both eras, and the calls in flight.

use std::fmt;
use std::sync::Arc;

use thruway_mcp::schema::ServerCapabilities;
use thruway_mcp::{Era, Revision};
use thruway_mcp_server::backend::DroppedMessages;

use super::far_side::{FarSide, LegacyFarSide};
use super::suspended::{CallsInFlight, Suspended};
use super::upstreams::Connector;

/// The state of a bridge.
pub(super) struct BridgeCore {
    /// The server for modern clients. Uses the modern era if the server supports it.
    pub(super) far_side: Arc<FarSide>,
    /// The server for legacy clients, if the server supports both eras.
    pub(super) legacy_far_side: LegacyFarSide,
    pub(super) connector: Connector,
    pub(super) shares_subscriptions: bool,
    pub(super) suspended: Arc<Suspended>,
    pub(super) calls: CallsInFlight,
    pub(super) dropped: Arc<DroppedMessages>,
}

impl BridgeCore {
    /// Returns the era in which the bridge serves modern clients.
    pub(super) fn era(&self) -> Era {
        self.far_side.era()
    }

    /// Returns the server for clients of era `near`. Legacy clients use the legacy era if the server supports
    /// it, because some servers ask their clients questions only there.
    pub(super) fn far_side(&self, near: Era) -> &Arc<FarSide> {
        match near {
            Era::Legacy => self.legacy_far_side.get().unwrap_or(&self.far_side),
            Era::Modern => &self.far_side,
        }
    }

    /// Returns the server for a new legacy session. If it is still unknown whether the server supports the
    /// legacy era, starts another attempt to find out, for later sessions.
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

    /// Returns the capabilities of the server for clients with revision `near`.
    pub(super) fn capabilities(&self, near: Revision) -> ServerCapabilities {
        self.far_side(near.era()).capabilities(near)
    }

    /// Subscribes to changes of lists, for modern clients.
    pub(super) async fn watch_lists(&self) {
        self.far_side.watch_lists().await;
    }
}

impl fmt::Debug for BridgeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeCore").field("far_side", &self.far_side).finish_non_exhaustive()
    }
}
