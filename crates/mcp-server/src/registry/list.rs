//! Lists of tools, resources and prompts. The JSON of these lists is cached, because clients request a list
//! far more often than it changes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use thruway_mcp::Era;
use thruway_mcp::json_rpc::Error;

/// An entry of a list, with a unique name.
pub(crate) trait Named {
    /// Name of the JSON member that contains the list in a result, such as `tools`.
    const MEMBER: &'static str;
    type Definition: Serialize + Clone;

    /// Returns the unique name of the entry.
    fn key(&self) -> &str;
    /// Returns the definition that clients of the modern era get.
    fn definition(&self) -> &Self::Definition;

    /// Returns the definition that clients of the legacy era get.
    fn legacy_definition(&self) -> Cow<'_, Self::Definition> {
        Cow::Borrowed(self.definition())
    }
}

/// A list of entries, in the order in which they were added.
pub(crate) struct List<T> {
    entries: Vec<Arc<T>>,
    places: HashMap<String, usize>,
    pages: Pages,
}

/// The cached pages of a list, as JSON text of the form `"tools":[…],"nextCursor":"…"`. The first request in
/// each era creates all pages of this era.
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

    /// Adds an entry, or replaces the entry with the same name.
    pub(crate) fn insert(&mut self, entry: Arc<T>) {
        self.pages = Pages::default();
        if let Some(place) = self.places.get(entry.key()) {
            self.entries[*place] = entry;
        } else {
            self.places.insert(entry.key().to_owned(), self.entries.len());
            self.entries.push(entry);
        }
    }

    /// Removes the entry `name`. Returns `true` if the list contained this entry.
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
        let mut bytes = format!("\"{}\":", T::MEMBER).into_bytes();
        // Writing plain data to a vector cannot fail.
        let _ = serde_json::to_writer(&mut bytes, definitions);
        if let Some(next) = next {
            bytes.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
        }
        bytes
    }

    /// Returns the page at `cursor` as JSON text. `page_entries` is the maximum number of entries in a page,
    /// and must be the same in all calls.
    ///
    /// # Errors
    /// Returns an error if the cursor does not belong to a page of this list.
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
    Error::invalid_params("`cursor` is invalid for this list")
}

/// Returns the start of the error text `reason`. The whole text may be too long, because it can contain input
/// of the client.
pub(super) fn start_of(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

const REASON_BYTES_MAX: usize = 1000;

/// The error for an item that cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationError {
    name: String,
    reason: String,
}

impl RegistrationError {
    /// Returns the error for the item `name`, for implementations of [`Offer`](crate::Offer).
    pub fn new(name: &str, reason: impl Into<String>) -> Self {
        Self { name: name.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot register `{}`: {}", self.name, self.reason)
    }
}

impl std::error::Error for RegistrationError {}
