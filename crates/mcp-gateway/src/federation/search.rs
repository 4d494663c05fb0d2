//! Tool search: the short list of tools that clients get, and the tool that finds the others.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::federated::{ListKind, MemberName, MergedEntry, MergedList, SearchIndex, SearchText};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::{ResultType, ResultWriter};
use thruway_mcp::params::Params;
use thruway_mcp::{Era, Revision};

use super::audience::Audience;
use super::listing::Listing;
use super::rules::{Access, RuleSet};
use super::search_tools::{self, CallArguments, FindArguments};

/// Options for tool search. An endpoint with tool search lists only the tools `find_tool` and `call_tool` and
/// the pinned tools. The model finds all other tools with `find_tool`, and calls them with `call_tool`. A
/// client can also call them directly by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolSearch {
    /// The names of the tools that stay in the list, such as `github__read_issue`. Default: empty.
    pub pinned: Vec<String>,
    /// Maximum number of tools that `find_tool` returns, at least 1. Default: 5.
    pub results_max: usize,
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self { pinned: Vec::new(), results_max: 5 }
    }
}

/// The state of the tool search of a gateway.
#[derive(Debug)]
pub(super) struct SearchState {
    pinned: HashSet<String>,
    results_max: usize,
    /// The derived lists, for each class of callers.
    derived: Mutex<HashMap<(Option<RuleSet>, Audience), Derived>>,
}

/// Data that depend on the list of tools that a class of callers can use.
#[derive(Clone, Debug)]
struct Derived {
    all: Weak<MergedList>,
    pinned: Arc<MergedList>,
    /// The definitions of `find_tool` and `call_tool`.
    own_tools: Arc<str>,
    /// Created by the first search.
    index: Arc<OnceLock<SearchIndex>>,
}

/// The texts of a tool that the search uses.
#[derive(Deserialize)]
struct ToolTexts {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

/// The parts of a tool that `find_tool` returns.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundTool<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
}

/// The structured content of a result of `find_tool`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FoundTools<'a> {
    tools: Vec<FoundTool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_servers: Vec<&'a str>,
}

/// The result of a call of an own tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnToolResult<'a> {
    content: [TextContent<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
}

#[derive(Serialize)]
struct TextContent<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl SearchState {
    pub(super) fn new(options: ToolSearch) -> Self {
        Self {
            pinned: options.pinned.into_iter().collect(),
            results_max: options.results_max.max(1),
            derived: Mutex::default(),
        }
    }

    /// Replaces the list of all tools that a caller can use by the list that clients get.
    pub(super) fn shorten(&self, all: Listing, revision: Revision, access: Option<&Access<'_>>) -> Listing {
        let derived = self.derived(&all.merged, revision, access);
        Listing { merged: derived.pinned, own_tools: Some(derived.own_tools), ..all }
    }

    /// Returns the data for the list `all` of the tools that a caller can use.
    fn derived(&self, all: &Arc<MergedList>, revision: Revision, access: Option<&Access<'_>>) -> Derived {
        let audience = Audience::of(ListKind::Tools, revision);
        let key = (access.map(|access| access.class().clone()), audience);
        let current = Arc::downgrade(all);
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = derived.get(&key).filter(|known| known.all.ptr_eq(&current)) {
            return known.clone();
        }
        if derived.len() >= DERIVED_MAX && !derived.contains_key(&key) {
            derived.clear();
        }
        let new = Derived {
            all: current,
            pinned: Arc::new(all.filtered(|entry| self.pinned.contains(&*entry.key))),
            own_tools: search_tools::definitions(audience, self.results_max).into(),
            index: Arc::default(),
        };
        derived.insert(key, new.clone());
        new
    }
}

/// A call of a tool of the gateway itself.
pub(super) struct OwnToolCall<'r> {
    pub(super) params: &'r Params<'r>,
    pub(super) revision: Revision,
    /// The permissions of the caller. `None` permits everything.
    pub(super) access: Option<&'r Access<'r>>,
}

impl OwnToolCall<'_> {
    /// Appends the result. `all` contains all tools that the caller can use. If the arguments are invalid, the
    /// result contains the reason as a text for the model.
    ///
    /// # Errors
    /// The result cannot be written as JSON.
    pub(super) fn write_result(
        &self,
        output: &mut Vec<u8>,
        results: &ResultWriter,
        search: &SearchState,
        all: &Listing,
    ) -> Result<(), Error> {
        let found = match self.find_arguments() {
            Ok(arguments) => self.find(search, all, &arguments)?,
            Err(reason) => {
                let content = [TextContent { r#type: "text", text: &reason }];
                let result = OwnToolResult { content, structured_content: None, is_error: Some(true) };
                return self.write(output, results, &result);
            }
        };
        let result = OwnToolResult {
            content: [TextContent { r#type: "text", text: found.get() }],
            structured_content: self.revision.has_structured_output().then_some(&*found),
            is_error: None,
        };
        self.write(output, results, &result)
    }

    /// # Errors
    /// The arguments are invalid, or the inner call of `call_tool` calls `call_tool` again. All other calls of
    /// `call_tool` were replaced by their inner calls.
    fn find_arguments(&self) -> Result<FindArguments<'_>, String> {
        if self.params.name.as_deref() == Some(search_tools::CALL_TOOL) {
            CallArguments::parse(self.params.arguments)?;
            return Err(format!("{} cannot call itself", search_tools::CALL_TOOL));
        }
        FindArguments::parse(self.params.arguments)
    }

    /// Returns the structured content of the result.
    fn find(
        &self,
        search: &SearchState,
        all: &Listing,
        arguments: &FindArguments<'_>,
    ) -> Result<Box<RawValue>, Error> {
        let derived = search.derived(&all.merged, self.revision, self.access);
        let index = derived.index.get_or_init(|| index_of(&all.merged));
        let found = index.search(&arguments.query, arguments.limit(search.results_max));
        let entries: Vec<_> = all.entries().collect();
        let found = found.into_iter().filter_map(|place| found_tool(&all.merged, entries.get(place)?));
        let missing_servers = all.missing.iter().map(MemberName::as_str).collect();
        let found = FoundTools { tools: found.collect(), missing_servers };
        to_raw_value(&found).map_err(|_| Error::internal("cannot write the found tools as JSON"))
    }

    fn write(
        &self,
        output: &mut Vec<u8>,
        results: &ResultWriter,
        result: &OwnToolResult<'_>,
    ) -> Result<(), Error> {
        match self.revision.era() {
            Era::Modern => results.write(output, ResultType::Complete, None, result, None),
            Era::Legacy => serde_json::to_writer(output, result)
                .map_err(|_| Error::internal("cannot write the result as JSON")),
        }
    }
}

/// Creates the index of a list. The position of a tool in the index is its position in the list.
fn index_of(all: &MergedList) -> SearchIndex {
    let texts: Vec<_> = all.entries().map(|entry| (&*entry.key, description(all.json_of(entry)))).collect();
    SearchIndex::new(texts.iter().map(|(name, description)| SearchText { name, description }))
}

/// Returns the title and the description of a tool.
fn description(tool: &str) -> String {
    match serde_json::from_str(tool) {
        Ok(ToolTexts { title, description }) => [title, description].map(Option::unwrap_or_default).join(" "),
        // The member has sent another type, or a member twice. The search then uses only the name.
        Err(_) => String::new(),
    }
}

/// Returns `None` for a tool without an input schema, because models cannot call it.
fn found_tool<'a>(all: &'a MergedList, entry: &MergedEntry) -> Option<FoundTool<'a>> {
    serde_json::from_str(all.json_of(entry)).ok()
}

/// Maximum number of classes of callers with derived data.
const DERIVED_MAX: usize = 64;
