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
    /// The connections for modern clients. These connections use the modern era if the server supports that
    /// era, otherwise the legacy era.
    pub(super) era_server: Arc<EraServer>,
    /// The connections for legacy clients. Used only if the server supports both eras.
    pub(super) legacy_era_server: LegacyEraServer,
    pub(super) connector: Connector,
    pub(super) shares_subscriptions: bool,
    pub(super) suspended: Arc<Suspended>,
    pub(super) calls: CallsInFlight,
    pub(super) dropped: Arc<DroppedMessages>,
}

impl BridgeCore {
    /// Returns the era that the bridge speaks with the server when it forwards a request of a modern client.
    pub(super) fn era(&self) -> Era {
        self.era_server.era()
    }

    /// Returns the connections for clients of the era `near`. If possible, legacy clients use legacy
    /// connections, because some servers ask questions only in the legacy era.
    pub(super) fn era_server(&self, near: Era) -> &Arc<EraServer> {
        match near {
            Era::Legacy => self.legacy_era_server.get().unwrap_or(&self.era_server),
            Era::Modern => &self.era_server,
        }
    }

    /// Returns the connections for a new legacy session. If the bridge could not yet detect whether the
    /// server supports the legacy era, it tries again in the background. The result of this attempt applies
    /// only to later sessions.
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

    /// Subscribes to changes of the server's lists of tools, prompts and resources. The bridge forwards these
    /// changes to modern clients.
    pub(super) async fn watch_lists(&self) {
        self.era_server.watch_lists().await;
    }
}

impl fmt::Debug for BridgeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeCore").field("era_server", &self.era_server).finish_non_exhaustive()
    }
}
