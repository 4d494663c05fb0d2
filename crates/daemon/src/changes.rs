//! Recent changes of the service, for `/status`: reloads, admin states and server states.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The most recent changes. All clones share the same list.
#[derive(Clone, Default, Debug)]
pub(crate) struct Changes(Arc<Mutex<VecDeque<Change>>>);

/// A change of the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) at: SystemTime,
    pub(crate) kind: ChangeKind,
    /// Description for operators. At most [`TEXT_BYTES_MAX`] bytes.
    pub(crate) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeKind {
    /// The operator has changed the admin state of a server.
    AdminState,
    /// A reload has replaced the config.
    Reload,
    /// A reload has failed.
    ReloadFailed,
    /// The state of a server has changed.
    ServerState,
}

impl ChangeKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::AdminState => "admin_state",
            Self::Reload => "reload",
            Self::ReloadFailed => "reload_failed",
            Self::ServerState => "server_state",
        }
    }
}

impl Changes {
    /// Adds a change. Removes the oldest change if the list is full.
    pub(crate) fn add(&self, at: SystemTime, kind: ChangeKind, mut text: String) {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        let mut changes = self.lock();
        if changes.len() == CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(Change { at, kind, text });
    }

    /// Returns all changes, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<Change> {
        self.lock().iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of changes in the list.
const CHANGES_MAX: usize = 100;

/// Maximum length of a text.
const TEXT_BYTES_MAX: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_changes_is_bounded_and_begins_with_the_newest() {
        let changes = Changes::default();
        for number in 0..CHANGES_MAX + 5 {
            let text = format!("{number}{}", "é".repeat(TEXT_BYTES_MAX));
            changes.add(SystemTime::UNIX_EPOCH, ChangeKind::Reload, text);
        }
        let all = changes.newest_first();
        assert_eq!(all.len(), CHANGES_MAX);
        assert!(all[0].text.starts_with("104é") && all[99].text.starts_with("5é"));
        assert!(all.iter().all(|change| change.text.len() <= TEXT_BYTES_MAX));
    }
}
