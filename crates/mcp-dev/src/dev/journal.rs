//! The journal of a development server: messages between bridge and server, output of the server, and
//! restarts.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast;

/// The latest entries. All clones share them.
#[derive(Clone)]
pub(super) struct Journal {
    kept: Arc<Mutex<Kept>>,
    new: broadcast::Sender<Arc<Entry>>,
}

#[derive(Default)]
struct Kept {
    last_number: u64,
    entries: VecDeque<Arc<Entry>>,
}

/// An entry of the journal.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    /// Number of the entry. The first one has the number 1.
    pub(super) number: u64,
    pub(super) kind: EntryKind,
    pub(super) text: String,
}

/// The source of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryKind {
    /// A message to the server.
    Sent,
    /// A message from the server.
    Received,
    /// A line of the output of the server.
    Output,
    /// A line of the output of the build.
    Build,
    /// A change of the state of the server.
    State,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self { kept: Arc::default(), new: broadcast::channel(ENTRIES_WAITING_MAX).0 }
    }

    /// Adds an entry. Cuts long texts, and drops the oldest entry if there are too many.
    pub(super) fn add(&self, kind: EntryKind, text: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last_number += 1;
        let mut shown = text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        if shown.len() < text.len() {
            let omitted = text.len() - shown.len();
            // Writing to a string cannot fail.
            let _ = write!(shown, "… ({omitted} more bytes)");
        }
        let entry = Arc::new(Entry { number: kept.last_number, kind, text: shown });
        kept.entries.push_back(entry.clone());
        if kept.entries.len() > ENTRIES_MAX {
            kept.entries.pop_front();
        }
        // Sends under the lock, so that `follow` neither misses nor repeats an entry. Without a reader,
        // sending fails, and nothing is lost.
        let _ = self.new.send(entry);
    }

    /// Returns the entries until now, and a receiver of all later entries.
    pub(super) fn follow(&self) -> (Vec<Arc<Entry>>, broadcast::Receiver<Arc<Entry>>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.entries.iter().cloned().collect(), self.new.subscribe())
    }
}

/// Maximum number of entries in memory.
const ENTRIES_MAX: usize = 500;

/// Maximum number of entries that wait for a slow reader. The reader misses older ones.
const ENTRIES_WAITING_MAX: usize = 256;

/// Maximum length of a text, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_is_bounded() {
        let journal = Journal::new();
        for n in 0..ENTRIES_MAX + 5 {
            journal.add(EntryKind::Output, &n.to_string());
        }
        journal.add(EntryKind::Sent, &"ä".repeat(TEXT_BYTES_MAX));
        let (entries, _) = journal.follow();
        assert_eq!((entries.len(), entries[0].number), (ENTRIES_MAX, 7));
        let last = &entries[ENTRIES_MAX - 1].text;
        assert!(last.ends_with("ä… (8192 more bytes)") && last.len() < TEXT_BYTES_MAX + 40);
    }

    #[tokio::test]
    async fn follower_gets_each_entry_once() {
        let journal = Journal::new();
        journal.add(EntryKind::State, "before");
        let (entries, mut later) = journal.follow();
        journal.add(EntryKind::Build, "after");
        assert_eq!((entries.len(), &*later.recv().await.unwrap().text), (1, "after"));
        assert!(later.try_recv().is_err());
    }
}
