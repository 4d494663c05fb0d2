//! A list that clients ask for far more often than it changes: its pages are kept as they are sent.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use thruway_mcp::json_rpc::Error;

/// What can stand in a list.
pub(crate) trait Named {
    /// What the schema calls the list, which is a member of the result.
    const MEMBER: &'static str;
    type Definition: Serialize;

    /// What tells entries apart.
    fn key(&self) -> &str;
    /// What clients are told.
    fn definition(&self) -> &Self::Definition;
}

/// Entries in the order in which they were added.
pub(crate) struct List<T> {
    entries: Vec<Arc<T>>,
    places: HashMap<String, usize>,
    /// `"tools":[…],"nextCursor":"…"` for each page, written when they are first asked for.
    pages: OnceLock<Vec<Vec<u8>>>,
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), places: self.places.clone(), pages: OnceLock::new() }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::new(), pages: OnceLock::new() }
    }
}

impl<T: Named> List<T> {
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<T>> {
        self.places.get(name).map(|place| &self.entries[*place])
    }

    pub(crate) fn entries(&self) -> &[Arc<T>] {
        &self.entries
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry, or puts it in the place of the one that has its name.
    pub(crate) fn insert(&mut self, entry: Arc<T>) {
        self.pages = OnceLock::new();
        if let Some(place) = self.places.get(entry.key()) {
            self.entries[*place] = entry;
        } else {
            self.places.insert(entry.key().to_owned(), self.entries.len());
            self.entries.push(entry);
        }
    }

    /// Whether there was such an entry.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(place) = self.places.remove(name) else { return false };
        self.entries.remove(place);
        self.pages = OnceLock::new();
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        true
    }

    fn write_pages(&self, page_entries: usize) -> Vec<Vec<u8>> {
        let count = self.entries.len().div_ceil(page_entries).max(1);
        (0..count).map(|page| self.write_page(page, count, page_entries)).collect()
    }

    fn write_page(&self, page: usize, count: usize, page_entries: usize) -> Vec<u8> {
        let start = page * page_entries;
        let end = self.entries.len().min(start + page_entries);
        let definitions: Vec<_> = self.entries[start..end].iter().map(|entry| entry.definition()).collect();
        let mut octets = format!("\"{}\":", T::MEMBER).into_bytes();
        // Definitions are plain data, into a vector.
        let _ = serde_json::to_writer(&mut octets, &definitions);
        if page + 1 < count {
            octets.extend_from_slice(format!(",\"nextCursor\":\"{}\"", page + 1).as_bytes());
        }
        octets
    }

    /// The members of the result for the page at `cursor`, of pages of at most `page_entries`, which is always the same.
    ///
    /// # Errors
    /// No page of this list has been given that cursor.
    pub(crate) fn page(&self, cursor: Option<&str>, page_entries: usize) -> Result<&[u8], Error> {
        let place = match cursor {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .ok()
                .filter(|place| *place > 0 && cursor == usize::to_string(place))
                .ok_or_else(invalid_cursor)?,
        };
        self.pages
            .get_or_init(|| self.write_pages(page_entries))
            .get(place)
            .map(|page| &**page)
            .ok_or_else(invalid_cursor)
    }
}

fn invalid_cursor() -> Error {
    Error::invalid_params("`cursor` is none of this list")
}
