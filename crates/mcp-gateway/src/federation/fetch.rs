//! Fetches the list of a member, page by page.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp::federated::{ListItem, ListKind, Withheld};
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::schema::{
    CacheHint, CacheScope, Implementation, PaginatedRequestParams, ServerCapabilities,
};
use thruway_mcp::{Era, Revision};
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, Sender, empty_object};
use thruway_mcp_client::{McpClient, McpClientError};
use tokio::time::Instant;

use super::tool_traits::{ToolTraits, TraitsOfTools};

/// A connection to a member.
#[derive(Debug)]
pub(super) struct ListConnection {
    /// The client that is connected to the member.
    pub(super) client: McpClient,
    /// The capabilities of the member. The catalog requests only lists that the member has.
    pub(super) capabilities: ServerCapabilities,
    /// `true` if the gateway gets the member's notifications about changes of lists. The catalog then keeps a
    /// list until the member reports a change.
    pub(super) is_watched: bool,
}

/// The list of one member.
#[derive(Debug)]
pub(super) struct MemberList {
    /// The protocol revision in which the member has sent the list.
    pub(super) revision: Revision,
    pub(super) items: Vec<ListItem>,
    /// The items that the gateway cannot offer: the name or the number of the item, and the reason.
    pub(super) withheld: Vec<(Box<str>, Withheld)>,
    /// The permission of the member to cache the list. `None` in the legacy era.
    pub(super) hint: Option<CacheHint>,
    pub(super) fetched_at: Instant,
    /// `true` if the member reports changes of the list.
    pub(super) is_watched: bool,
    /// The properties of the tools, if this is a list of tools.
    pub(super) traits: TraitsOfTools,
}

impl MemberList {
    /// Returns the properties of the tool with the member's own name `name`. Returns `None` if the list does not
    /// contain the tool.
    pub(super) fn tool_traits(&self, name: &str) -> Option<ToolTraits> {
        self.traits.of_tool(name, &self.items)
    }

    /// Returns the time for which the gateway may use the list without a refresh.
    pub(super) fn lifetime(&self, ttl_max: Duration) -> Duration {
        let ttl = match self.hint {
            _ if self.is_watched => ttl_max,
            Some(hint) => Duration::from_millis(hint.ttl_ms),
            None => UNWATCHED_LIFETIME,
        };
        ttl.min(ttl_max)
    }

    /// Returns the permission for clients to cache the list, as of now. Clients must not cache a list of a
    /// legacy member.
    pub(super) fn hint_now(&self) -> CacheHint {
        let Some(hint) = self.hint else { return CacheHint::default() };
        let age = u64::try_from(self.fetched_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        CacheHint { ttl_ms: hint.ttl_ms.saturating_sub(age), ..hint }
    }

    /// `true` if clients get the same items from both lists.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.texts().eq(other.texts())
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| item.json().get())
    }
}

/// Fetches all pages of a list. Withholds the items after the limits for pages, items and bytes.
///
/// # Errors
/// The member is unreachable, or does not answer with a list.
pub(super) async fn fetch_list(
    connection: &ListConnection,
    kind: ListKind,
    client_info: &Implementation,
) -> Result<MemberList, McpClientError> {
    let revision = connection.client.revision().await?;
    let capability = ListSupport::of(&connection.capabilities, kind);
    let mut pages = Pages::new(kind);
    let mut next = capability.has_list.then(|| page_request(kind, revision, client_info, None));
    while let Some(request) = next.take() {
        match connection.client.forward(&request).await {
            Ok(answer) => {
                let cursor = pages.add(&answer)?;
                next = cursor.map(|cursor| page_request(kind, revision, client_info, Some(cursor)));
            }
            // Some members declare resources, but have no templates.
            Err(McpClientError::Server(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    Ok(MemberList {
        revision,
        items: pages.items,
        withheld: pages.withheld,
        hint: pages.hint,
        fetched_at: Instant::now(),
        is_watched: connection.is_watched && capability.has_changes,
        traits: TraitsOfTools::default(),
    })
}

/// Support of a member for one kind of list.
struct ListSupport {
    has_list: bool,
    /// `true` if the member reports changes of the list.
    has_changes: bool,
}

impl ListSupport {
    fn of(capabilities: &ServerCapabilities, kind: ListKind) -> Self {
        let changes = match kind {
            ListKind::Tools => capabilities.tools.map(|tools| tools.list_changed),
            ListKind::Prompts => capabilities.prompts.map(|prompts| prompts.list_changed),
            ListKind::Resources | ListKind::ResourceTemplates => {
                capabilities.resources.map(|resources| resources.list_changed)
            }
        };
        Self { has_list: changes.is_some(), has_changes: changes.flatten().unwrap_or_default() }
    }
}

fn page_request(
    kind: ListKind,
    revision: Revision,
    client_info: &Implementation,
    cursor: Option<String>,
) -> ForwardedCall {
    let params = PaginatedRequestParams { cursor, meta: None };
    let sender = Sender {
        capabilities: "{}".into(),
        // Strings and numbers can always be written as JSON.
        info: serde_json::to_string(client_info).unwrap_or_else(|_| "{}".to_owned()).into(),
        log_level: None,
    };
    ForwardedCall {
        method: kind.method().into(),
        name: None,
        params: serde_json::value::to_raw_value(&params).unwrap_or_else(|_| empty_object()),
        has_meta: false,
        param_headers: None,
        sender: (revision.era() == Era::Modern).then_some(sender),
        round: Vec::new(),
        requester: None,
        progress: None,
        progress_token: None,
        trace: None,
        is_of_process: false,
    }
}

/// The pages that the member has sent.
struct Pages {
    kind: ListKind,
    items: Vec<ListItem>,
    withheld: Vec<(Box<str>, Withheld)>,
    hint: Option<CacheHint>,
    cursors: HashSet<String>,
    /// Number of items, with the invalid items.
    count: usize,
    bytes: usize,
}

impl Pages {
    fn new(kind: ListKind) -> Self {
        Self {
            kind,
            items: Vec::new(),
            withheld: Vec::new(),
            hint: None,
            cursors: HashSet::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// Adds the items of a page. Returns the cursor of the next page, if the gateway needs this page.
    ///
    /// # Errors
    /// The answer is not a page of a list.
    fn add(&mut self, answer: &Answer) -> Result<Option<String>, McpClientError> {
        let invalid = |error: serde_json::Error| McpClientError::result_invalid(&error);
        let members: HashMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(answer.get()).map_err(invalid)?;
        let items = members.get(self.kind.result_member()).ok_or_else(|| {
            McpClientError::result_invalid(&format!("expected a member `{}`", self.kind.result_member()))
        })?;
        let items: Vec<&RawValue> = serde_json::from_str(items.get()).map_err(invalid)?;
        let next = match members.get("nextCursor") {
            Some(cursor) => serde_json::from_str(cursor.get()).map_err(invalid)?,
            None => None,
        };
        self.bytes += answer.get().len();
        self.add_hint(&members);
        for item in items {
            self.add_item(item);
        }
        Ok(self.next_cursor(next))
    }

    /// The list may be cached for the shortest time of its pages.
    fn add_hint(&mut self, members: &HashMap<Cow<'_, str>, &RawValue>) {
        let ttl = members.get("ttlMs").and_then(|ttl| serde_json::from_str::<i64>(ttl.get()).ok());
        let scope = members.get("cacheScope").and_then(|scope| serde_json::from_str(scope.get()).ok());
        let Some(ttl) = ttl else { return };
        let hint = CacheHint {
            ttl_ms: u64::try_from(ttl).unwrap_or_default(),
            cache_scope: scope.unwrap_or(CacheScope::Private),
        };
        self.hint = Some(self.hint.map_or(hint, |other| combine(other, hint)));
    }

    fn add_item(&mut self, json: &RawValue) {
        self.count += 1;
        if self.count > ITEMS_MAX {
            return;
        }
        match ListItem::parse(self.kind, json) {
            Ok(item) => self.items.push(item),
            Err(_) => self.withheld.push((format!("#{}", self.count).into(), Withheld::Invalid)),
        }
    }

    fn next_cursor(&mut self, next: Option<String>) -> Option<String> {
        let is_full = next.is_some() && (self.bytes >= BYTES_MAX || self.cursors.len() + 1 >= PAGES_MAX);
        if self.count > ITEMS_MAX || (next.is_some() && self.count == ITEMS_MAX) || is_full {
            self.withheld.push((Box::default(), Withheld::TooMany));
            return None;
        }
        let cursor = next?;
        // The list of a member that repeats a cursor never ends.
        if !self.cursors.insert(cursor.clone()) {
            self.withheld.push((Box::default(), Withheld::TooMany));
            return None;
        }
        Some(cursor)
    }
}

/// Returns the cache hint for a list that consists of two parts.
pub(super) fn combine(one: CacheHint, other: CacheHint) -> CacheHint {
    let is_public = [one, other].iter().all(|hint| hint.cache_scope == CacheScope::Public);
    CacheHint {
        ttl_ms: one.ttl_ms.min(other.ttl_ms),
        cache_scope: if is_public { CacheScope::Public } else { CacheScope::Private },
    }
}

/// Maximum number of pages of a list.
const PAGES_MAX: usize = 64;

/// Maximum number of items of a list.
const ITEMS_MAX: usize = 10_000;

/// Size of a list in bytes at which the gateway requests no further page.
const BYTES_MAX: usize = 32 << 20;

/// Time for which the gateway uses the list of a legacy member that does not report changes. Clients often
/// request several lists at the same time, or all pages of a list.
const UNWATCHED_LIFETIME: Duration = Duration::from_secs(5);
