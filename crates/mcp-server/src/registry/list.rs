//! A list that clients ask for far more often than it changes: its pages are kept as they are sent.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use thruway_mcp::Era;
use thruway_mcp::json_rpc::Error;

/// What can stand in a list.
pub(crate) trait Named {
    /// What the schema calls the list, which is a member of the result.
    const MEMBER: &'static str;
    type Definition: Serialize + Clone;

    /// What tells entries apart.
    fn key(&self) -> &str;
    /// What clients are told.
    fn definition(&self) -> &Self::Definition;

    /// What clients of the legacy era are told.
    fn legacy_definition(&self) -> Cow<'_, Self::Definition> {
        Cow::Borrowed(self.definition())
    }
}

/// Entries in the order in which they were added.
pub(crate) struct List<T> {
    entries: Vec<Arc<T>>,
    places: HashMap<String, usize>,
    pages: Pages,
}

/// `"tools":[…],"nextCursor":"…"` for each page, written when they are first asked for.
#[derive(Default)]
struct Pages {
    modern: OnceLock<Vec<Vec<u8>>>,
    legacy: OnceLock<Vec<Vec<u8>>>,
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), places: self.places.clone(), pages: Pages::default() }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::new(), pages: Pages::default() }
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
        self.pages = Pages::default();
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
        self.pages = Pages::default();
        for later in self.places.values_mut().filter(|later| **later > place) {
            *later -= 1;
        }
        true
    }

    fn write_pages(&self, era: Era, page_entries: usize) -> Vec<Vec<u8>> {
        let definitions: Vec<_> = self
            .entries
            .iter()
            .map(|entry| match era {
                Era::Modern => Cow::Borrowed(entry.definition()),
                Era::Legacy => entry.legacy_definition(),
            })
            .collect();
        let count = definitions.len().div_ceil(page_entries).max(1);
        let pages = (0..count).map(|page| {
            let start = page * page_entries;
            let end = definitions.len().min(start + page_entries);
            Self::write_page(&definitions[start..end], (page + 1 < count).then_some(page + 1))
        });
        pages.collect()
    }

    fn write_page(definitions: &[Cow<'_, T::Definition>], next: Option<usize>) -> Vec<u8> {
        let mut octets = format!("\"{}\":", T::MEMBER).into_bytes();
        // Definitions are plain data, into a vector.
        let _ = serde_json::to_writer(&mut octets, definitions);
        if let Some(next) = next {
            octets.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
        }
        octets
    }

    /// The members of the result for the page at `cursor`, of pages of at most `page_entries`, which is
    /// always the same.
    ///
    /// # Errors
    /// No page of this list has been given that cursor.
    pub(crate) fn page(&self, cursor: Option<&str>, era: Era, page_entries: usize) -> Result<&[u8], Error> {
        let place = match cursor {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .ok()
                .filter(|place| *place > 0 && cursor == usize::to_string(place))
                .ok_or_else(invalid_cursor)?,
        };
        let pages = match era {
            Era::Modern => &self.pages.modern,
            Era::Legacy => &self.pages.legacy,
        };
        pages
            .get_or_init(|| self.write_pages(era, page_entries))
            .get(place)
            .map(|page| &**page)
            .ok_or_else(invalid_cursor)
    }
}

fn invalid_cursor() -> Error {
    Error::invalid_params("`cursor` is none of this list")
}

/// As much of what is wrong with arguments as is told: it may quote what was sent.
pub(super) fn start_of(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

const REASON_BYTES_MAX: usize = 1000;

/// Something cannot be offered as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationError {
    name: String,
    reason: String,
}

impl RegistrationError {
    pub(crate) fn new(name: &str, reason: String) -> Self {
        Self { name: name.to_owned(), reason }
    }
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be offered: {}", self.name, self.reason)
    }
}

impl std::error::Error for RegistrationError {}
