//! How long a result may be kept (2026-07-28).

use serde::{Deserialize, Serialize};

/// How long a result may be kept, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// How long, in milliseconds.
    pub ttl_ms: u64,
    /// For whom.
    pub cache_scope: CacheScope,
}

/// For whom a result may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// For everybody.
    Public,
    /// For whoever asked.
    #[default]
    Private,
}
