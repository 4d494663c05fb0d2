//! Connections of the client in both eras.

use std::fmt::Debug;

use anyhow::ensure;
use rmcp::model::ProtocolVersion;
use rmcp::service::RunningService;
use rmcp::{ClientLifecycleMode, RoleClient};

use crate::client::Client;

/// A connected client.
pub(crate) type Connection = RunningService<RoleClient, Client>;

/// The era of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Modern,
    Legacy,
}

impl Era {
    /// Returns the connection lifecycle of the era.
    pub(crate) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Modern => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
            Self::Legacy => ClientLifecycleMode::Initialize,
        }
    }

    /// Returns the expected revision.
    pub(crate) fn revision(self) -> ProtocolVersion {
        match self {
            Self::Modern => ProtocolVersion::V_2026_07_28,
            Self::Legacy => ProtocolVersion::V_2025_11_25,
        }
    }
}

/// Returns an error unless `actual` equals `expected`. `what` names the value.
pub(crate) fn expect<T: PartialEq + Debug>(what: &str, actual: &T, expected: &T) -> anyhow::Result<()> {
    ensure!(actual == expected, "{what}: {actual:?} instead of {expected:?}");
    Ok(())
}
