//! The state of a bridge: the connections to the server in each era, and the calls that the bridge is
//! forwarding.

use std::fmt;
use std::sync::Arc;

use thruway_mcp::schema::ServerCapabilities;
use thruway_mcp::{Era, Revision};
use thruway_mcp_server::backend::DroppedMessages;

use super::era_server::{EraServer, LegacyEraServer};
use super::suspended::{CallsInFlight, Suspended};
use super::upstreams::Connector;

/// The state of a bridge.
pub(super) struct BridgeCore {
    /// The server that handles requests of modern clients. The bridge uses the modern era if the server
    /// supports that era, otherwise the legacy era.
    pub(super) era_server: Arc<EraServer>,
    /// The server in the legacy era, for requests of legacy clients. Used only if the server supports
    /// both eras.
    pub(super) legacy_era_server: LegacyEraServer,
    pub(super) connector: Connector,
    pub(super) shares_subscriptions: bool,
    pub(super) suspended: Arc<Suspended>,
    pub(super) calls: CallsInFlight,
    pub(super) dropped: Arc<DroppedMessages>,
}

impl BridgeCore {
    /// Returns the era that the bridge uses to forward requests of modern clients.
    pub(super) fn era(&self) -> Era {
        self.era_server.era()
    }

    /// Returns the server for clients of the era `near`. Legacy clients use the server in the legacy era
    /// if possible, because some servers ask questions only in that era.
    pub(super) fn era_server(&self, near: Era) -> &Arc<EraServer> {
        match near {
            Era::Legacy => self.legacy_era_server.get().unwrap_or(&self.era_server),
            Era::Modern => &self.era_server,
        }
    }

    /// Returns the server for a new legacy session. If the bridge does not know yet whether the server
    /// supports the legacy era, starts another detection in the background. The result of this detection
    /// applies only to later sessions.
    pub(super) fn server_of_session(self: &Arc<Self>) -> &Arc<EraServer> {
        if self.legacy_era_server.is_undecided() {
            let bridge = self.clone();
            tokio::spawn(async move { bridge.probe_legacy_era().await });
        }
        self.era_server(Era::Legacy)
    }

    pub(super) async fn probe_legacy_era(&self) {
        let is_on_stream = self.era_server.upstreams.are_on_stream();
        self.legacy_era_server.probe(&self.connector, is_on_stream).await;
    }

    pub(super) fn era_servers(&self) -> impl Iterator<Item = &Arc<EraServer>> {
        [&self.era_server].into_iter().chain(self.legacy_era_server.get())
    }

    /// Returns the capabilities that the server offers to clients of the revision `near`.
    pub(super) fn capabilities(&self, near: Revision) -> ServerCapabilities {
        self.era_server(near.era()).capabilities(near)
    }

    /// On behalf of modern clients, subscribes to changes of the tool list, the prompt list and the
    /// resource list.
    pub(super) async fn watch_lists(&self) {
        self.era_server.watch_lists().await;
    }
}

impl fmt::Debug for BridgeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeCore").field("era_server", &self.era_server).finish_non_exhaustive()
    }
}
