//! The result of a request for a merged list.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use thruway_mcp::Era;
use thruway_mcp::federated::{MemberName, MergedEntry, MergedList};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::{ResultType, ResultWriter};
use thruway_mcp::schema::{CacheHint, MetaObject};

/// A merged list for a client.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) merged: Arc<MergedList>,
    /// Tools of the endpoint itself as JSON text, separated by commas. They come first on the first page.
    pub(super) own_tools: Option<Arc<str>>,
    /// The members that are missing in the list.
    pub(super) missing: Vec<MemberName>,
    /// Time and scope for which clients may cache the list.
    pub(super) cache: CacheHint,
    /// The era of the client.
    pub(super) era: Era,
    /// Maximum number of items in a page.
    pub(super) page_entries: usize,
}

impl Listing {
    /// Returns all items with their owners.
    pub(super) fn entries(&self) -> impl Iterator<Item = &MergedEntry> {
        self.merged.entries()
    }

    /// Appends a page as the result of a request. The `_meta` of the result names the missing members.
    ///
    /// # Errors
    /// The cursor is invalid.
    pub(super) fn write_page(
        &self,
        output: &mut Vec<u8>,
        results: &ResultWriter,
        cursor: Option<&str>,
    ) -> Result<(), Error> {
        let page = self.merged.page(cursor, self.page_entries.max(1));
        let page = page.map_err(|error| Error::invalid_params(error.to_string()))?;
        let mut members = Vec::with_capacity(page.items.len() + ENVELOPE_BYTES);
        let own_tools = self.own_tools.as_deref().filter(|_| cursor.is_none());
        page.append_members(&mut members, own_tools.unwrap_or_default());
        match self.era {
            Era::Modern if self.missing.is_empty() => {
                results.write_members(output, Some(self.cache), &members)
            }
            Era::Modern => {
                let members = String::from_utf8(members).unwrap_or_default();
                let members = RawValue::from_string(format!("{{{members}}}"));
                let members = members.map_err(|_| Error::internal("cannot write the list as JSON"))?;
                results.write(output, ResultType::Complete, Some(self.cache), &members, Some(&self.meta()))
            }
            Era::Legacy => {
                output.push(b'{');
                output.extend_from_slice(&members);
                if !self.missing.is_empty() {
                    let meta = Value::Object(self.meta());
                    output.extend_from_slice(format!(",\"_meta\":{meta}").as_bytes());
                }
                output.push(b'}');
                Ok(())
            }
        }
    }

    fn meta(&self) -> MetaObject {
        let missing: Vec<_> = self.missing.iter().map(MemberName::as_str).collect();
        MetaObject::from_iter([(MISSING.to_owned(), json!(missing))])
    }
}

/// The member of `_meta` that names the missing members.
const MISSING: &str = "thruway/missing";

/// Estimated size of a page without its items, in bytes.
const ENVELOPE_BYTES: usize = 256;
