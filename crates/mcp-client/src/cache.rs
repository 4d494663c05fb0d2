//! Cache for lists and resources. The client caches a result only if the server permits this in the result
//! (MCP revision 2026-07-28).
//!
//! A client serves one caller, so the cache also keeps results that are private to the caller.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thruway_mcp::schema::methods;
use tokio::time::Instant;

use super::handlers::ServerNotification;
use super::reading::Answer;

/// Cached results, by method and parameters.
#[derive(Default, Debug)]
pub(super) struct Cache(Mutex<CacheEntry>);

#[derive(Default, Debug)]
struct CacheEntry {
    all: HashMap<Key, Entry>,
    bytes: usize,
}

/// The method and the parameters of the request for a cached result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    method: &'static str,
    params: Box<str>,
}

#[derive(Debug)]
struct Entry {
    answer: Answer,
    until: Instant,
}

/// The caching hint in a result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hint {
    #[serde(default)]
    ttl_ms: Option<i64>,
}

/// Returns the cache key of a request, or `None` if its result cannot be cached.
pub(super) fn key(method: &'static str, params: &impl Serialize) -> Option<Key> {
    let params = if is_cacheable(method) { serde_json::to_string(params).ok()? } else { return None };
    Some(Key { method, params: params.into() })
}

/// `true` if the result of a request with this method may have a caching hint.
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        methods::TOOLS_LIST
            | methods::PROMPTS_LIST
            | methods::RESOURCES_LIST
            | methods::RESOURCES_TEMPLATES_LIST
            | methods::RESOURCES_READ
    )
}

impl Cache {
    /// Returns the cached result for `key`, unless the result has expired.
    pub(super) fn find(&self, key: &Key) -> Option<Answer> {
        let mut kept = self.kept();
        let entry = kept.all.get(key)?;
        if entry.until > Instant::now() {
            return Some(entry.answer.clone());
        }
        kept.remove(key);
        None
    }

    /// Caches a result for as long as its caching hint permits.
    pub(crate) fn keep(&self, key: Key, answer: &Answer) {
        let ttl = serde_json::from_str(answer.get()).ok().and_then(|hint: Hint| hint.ttl_ms);
        let ttl = ttl.and_then(|ttl| u64::try_from(ttl).ok()).map(Duration::from_millis).unwrap_or_default();
        let bytes = bytes_of(&key, answer);
        if ttl.is_zero() || bytes > BYTES_MAX {
            return;
        }
        let now = Instant::now();
        let mut kept = self.kept();
        kept.remove(&key);
        if kept.bytes + bytes > BYTES_MAX {
            kept.evict(now, bytes);
        }
        kept.bytes += bytes;
        kept.all.insert(key, Entry { answer: answer.clone(), until: now + ttl.min(TTL_MAX) });
    }

    /// Removes the cached results that a notification of the server reports as changed.
    pub(super) fn forget(&self, notification: &ServerNotification) {
        let is_changed = |key: &Key| match notification {
            ServerNotification::ToolsListChanged => key.method == methods::TOOLS_LIST,
            ServerNotification::PromptsListChanged => key.method == methods::PROMPTS_LIST,
            ServerNotification::ResourcesListChanged => {
                matches!(key.method, methods::RESOURCES_LIST | methods::RESOURCES_TEMPLATES_LIST)
            }
            ServerNotification::ResourceUpdated(updated) => {
                key.method == methods::RESOURCES_READ && key.is_about(&updated.uri)
            }
            ServerNotification::Message(_) | ServerNotification::Other { .. } => false,
        };
        let mut kept = self.kept();
        let changed: Vec<_> = kept.all.keys().filter(|key| is_changed(key)).cloned().collect();
        for key in &changed {
            kept.remove(key);
        }
    }

    fn kept(&self) -> MutexGuard<'_, CacheEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntry {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.all.remove(key) {
            self.bytes -= bytes_of(key, &entry.answer);
        }
    }

    /// Removes the expired entries. If the cache then still has no space for `bytes` more bytes, removes
    /// all entries.
    fn evict(&mut self, now: Instant, bytes: usize) {
        let overdue: Vec<_> =
            self.all.iter().filter(|(_, entry)| entry.until <= now).map(|(key, _)| key.clone()).collect();
        for key in &overdue {
            self.remove(key);
        }
        if self.bytes + bytes > BYTES_MAX {
            *self = Self::default();
        }
    }
}

impl Key {
    fn is_about(&self, uri: &str) -> bool {
        #[derive(Deserialize)]
        struct Uri {
            uri: String,
        }
        serde_json::from_str(&self.params).is_ok_and(|params: Uri| params.uri == uri)
    }
}

fn bytes_of(key: &Key, answer: &Answer) -> usize {
    key.params.len() + answer.get().len() + ENTRY_BYTES
}

/// Maximum size of the cache, in bytes.
const BYTES_MAX: usize = 16 << 20;

/// Estimated overhead of an entry, in bytes.
const ENTRY_BYTES: usize = 200;

/// Maximum lifetime of a cache entry. Adding a larger value from the server to the current time could
/// overflow.
const TTL_MAX: Duration = Duration::from_hours(24);
