//! The merged lists of a federation.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use thruway_mcp::Revision;
use thruway_mcp::federated::{
    EndpointNames, ListItem, ListKind, MemberItems, MemberName, MergedList, NameStyle, Withheld,
    WithheldItem, matches_template,
};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{CacheHint, CacheScope, Implementation};
use thruway_mcp_server::backend::Change;

use super::audience::{Audience, adapt};
use super::class_lists::ClassLists;
use super::fetch::{MemberList, combine};
use super::listing::Listing;
use super::member_lists::{ListSource, Lookup, MemberLists, Settings};
use super::rules::Access;

/// Options of a [`Catalog`].
#[derive(Clone, Debug)]
pub(super) struct CatalogOptions {
    /// Maximum time that a request for a list waits for the lists of the members.
    pub(super) list_wait: Duration,
    /// Maximum time that a list may be cached, by clients and by the catalog.
    pub(super) list_ttl_max: Duration,
    /// Maximum number of items in a page, at least 1.
    pub(super) page_entries: usize,
    /// Name and version of the gateway as a client of its members.
    pub(super) client_info: Implementation,
}

/// A member as the catalog uses it.
#[derive(Debug)]
pub(super) struct CatalogMember {
    pub(super) source: Arc<dyn ListSource>,
    /// `true` if a list without this member is an error.
    pub(super) is_required: bool,
}

/// The merged lists of all members.
pub(super) struct Catalog {
    names: Arc<EndpointNames>,
    members: Vec<Member>,
    options: CatalogOptions,
    merged: Mutex<HashMap<(ListKind, Audience), CachedMerge>>,
    class_lists: ClassLists,
    /// The withheld items that the log contains.
    logged: Mutex<HashSet<(ListKind, usize, Box<str>)>>,
    /// The lists that did not arrive in time to reserve their plain names, according to the log.
    unreserved: Mutex<HashSet<(ListKind, usize)>>,
}

struct Member {
    lists: Arc<MemberLists>,
    is_required: bool,
}

/// A merged list, and the lists that it consists of.
struct CachedMerge {
    inputs: Vec<Input>,
    merged: Arc<MergedList>,
}

/// The list of one member in a merged list. The list is `None` if the member has never sent it.
#[derive(Clone)]
struct Input {
    list: Option<Arc<MemberList>>,
    /// `false` if the items only reserve their names.
    is_listed: bool,
}

/// The error for a list in which a required member is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MissingMember {
    pub(super) name: MemberName,
}

impl Catalog {
    /// Creates the catalog. `members` has the same order as in `names`. The catalog calls `on_change` if a
    /// list that clients have received is outdated, and the member has not reported this: because the list of
    /// a missing member has arrived, or because a new copy differs from the old one.
    pub(super) fn new(
        names: Arc<EndpointNames>,
        members: Vec<CatalogMember>,
        options: CatalogOptions,
        on_change: impl Fn(ListKind) + Send + Sync + 'static,
    ) -> Self {
        let options = CatalogOptions {
            list_wait: options.list_wait.min(TIME_MAX),
            list_ttl_max: options.list_ttl_max.min(TIME_MAX),
            ..options
        };
        let settings = Settings {
            ttl_max: options.list_ttl_max,
            wait: options.list_wait,
            client_info: options.client_info.clone(),
            on_change: Arc::new(on_change),
        };
        let members = members.into_iter().enumerate().map(|(index, member)| Member {
            lists: MemberLists::new(names.member_name(index).clone(), member.source, settings.clone()),
            is_required: member.is_required,
        });
        let members = members.collect();
        Self {
            names,
            members,
            options,
            merged: Mutex::default(),
            class_lists: ClassLists::default(),
            logged: Mutex::default(),
            unreserved: Mutex::default(),
        }
    }

    /// Returns the items that a client can use. The client uses `revision`, and has the permissions `access`.
    /// `None` permits everything. Waits for the lists of the members, but at
    /// most [`list_wait`](CatalogOptions::list_wait).
    ///
    /// # Errors
    /// A required member is missing.
    pub(super) async fn list(
        &self,
        kind: ListKind,
        revision: Revision,
        access: Option<&Access<'_>>,
    ) -> Result<Listing, MissingMember> {
        let lists = self.fetch(kind).await;
        let is_visible = |member: &usize| {
            let prefix = self.names.prefix(kind, *member);
            access.is_none_or(|access| access.allows_some(kind, &prefix))
        };
        let missing = (0..lists.len()).filter(|member| lists[*member].is_none());
        let missing: Vec<_> = missing.filter(is_visible).collect();
        if let Some(member) = missing.iter().find(|member| self.members[**member].is_required) {
            return Err(MissingMember { name: self.names.member_name(*member).clone() });
        }
        let mut cache = self.cache_hint(&lists, !missing.is_empty());
        let missing = missing.into_iter().map(|member| self.names.member_name(member).clone()).collect();
        let inputs = lists.into_iter().enumerate().map(|(member, list)| match list {
            Some(list) => Input { list: Some(list), is_listed: true },
            None => Input { list: self.members[member].lists.last(kind), is_listed: false },
        });
        let audience = Audience::of(kind, revision);
        let mut merged = self.merge(kind, audience, inputs.collect());
        if let Some(access) = access {
            merged = self.class_lists.visible(kind, audience, &merged, access);
            if access.is_private() {
                cache.cache_scope = CacheScope::Private;
            }
        }
        Ok(Listing {
            merged,
            own_tools: None,
            missing,
            cache,
            era: revision.era(),
            page_entries: self.options.page_entries,
        })
    }

    /// Returns the member that owns the tool or prompt with the public name `public`, and the member's own
    /// name. Returns `None` for unknown, hidden and withheld names.
    ///
    /// If names are prefixed or if there is only one member, the name alone selects the member. The list
    /// matters only if the operator has hidden tools of this member, because clients must not be able to
    /// distinguish hidden tools from unknown tools.
    pub(super) async fn owner_of_name(&self, kind: ListKind, public: &str) -> Option<(usize, String)> {
        if let Some(owner) = self.owner_at_once(kind, public) {
            return Some(owner);
        }
        if !self.has_exact_names() {
            return self.owner_of_plain_name(kind, public).await;
        }
        let (member, own) = self.names.candidates(kind, public).next()?;
        let lists = &self.members[member].lists;
        match lists.finish(kind, lists.begin(kind)).await {
            Some(_) => self.listed_owner(kind, public),
            // A call then gets the error that the member is unavailable.
            None => Some((member, own.to_owned())),
        }
    }

    /// Returns the member that owns the tool or prompt, and the member's own name for it. Returns `None` if
    /// the owner is unknown without another request to the members.
    pub(super) fn owner_at_once(&self, kind: ListKind, public: &str) -> Option<(usize, String)> {
        if self.has_exact_names() {
            let (member, own) = self.names.candidates(kind, public).next()?;
            if !self.names.hides_some(kind, member) {
                return Some((member, own.to_owned()));
            }
            return self.listed_owner(kind, public);
        }
        let owner = self.listed_owner(kind, public)?;
        self.claimants(kind, public, Some(owner.0)).is_empty().then_some(owner)
    }

    /// Returns the owner of a plain name. Waits for the first lists of the members that could claim the name
    /// from its present owner. A member that has not sent its list in time cannot claim the name.
    async fn owner_of_plain_name(&self, kind: ListKind, public: &str) -> Option<(usize, String)> {
        let owner = self.listed_owner(kind, public).map(|(member, _)| member);
        self.wait_for_first_lists(kind, &self.claimants(kind, public, owner)).await;
        if self.listed_owner(kind, public).is_none() {
            self.fetch(kind).await;
        }
        self.listed_owner(kind, public)
    }

    /// Returns the members that have never sent their list, and could claim a plain name from `owner`.
    fn claimants(&self, kind: ListKind, public: &str, owner: Option<usize>) -> Vec<usize> {
        let may_claim = |member| owner.is_none_or(|owner| !self.names.is_preferred(owner, member));
        let candidates = self.names.candidates(kind, public).map(|(member, _)| member);
        let is_unlisted = |member: &usize| self.members[*member].lists.last(kind).is_none();
        candidates.filter(is_unlisted).filter(|member| may_claim(*member)).collect()
    }

    /// Returns `true` if a name determines its member, also without the lists.
    fn has_exact_names(&self) -> bool {
        self.names.style() == NameStyle::Prefixed || self.members.len() == 1
    }

    /// `true` if the last list of a member contains the tool with the public name `public`.
    pub(super) fn lists_tool(&self, member: usize, public: &str) -> bool {
        let known = self.known(ListKind::Tools);
        known.find(public).is_some_and(|entry| entry.member == member)
    }

    /// Waits until each of these members has sent the list at least once, but at most `list_wait`. Logs the
    /// members that have not.
    async fn wait_for_first_lists(&self, kind: ListKind, members: &[usize]) {
        for member in members {
            self.members[*member].lists.request_first(kind);
        }
        for member in members {
            self.members[*member].lists.wait_for_first(kind).await;
            if self.members[*member].lists.is_overdue(kind) && lock(&self.unreserved).insert((kind, *member))
            {
                tracing::warn!(
                    server = %self.names.member_name(*member),
                    "the server has not sent its {}: until then, other servers can use its plain names",
                    kind.result_member()
                );
            }
        }
    }

    /// Returns the owner of a name according to the last lists of the members, and the owner's own name.
    fn listed_owner(&self, kind: ListKind, public: &str) -> Option<(usize, String)> {
        self.known(kind).find(public).map(|entry| (entry.member, entry.own.to_string()))
    }

    /// Returns `true` if other members can use the plain names of this member, because it has not sent its
    /// lists in time.
    pub(super) fn has_unreserved_names(&self, member: usize) -> bool {
        let is_plain = self.names.style() == NameStyle::Plain && self.members.len() > 1;
        let is_overdue = |kind| self.members[member].lists.is_overdue(kind);
        is_plain && [ListKind::Tools, ListKind::Prompts].into_iter().any(is_overdue)
    }

    /// Returns the member that owns the resource. Searches the lists of resources, then the resource
    /// templates. If several templates match, the template with the longest literal text counts.
    pub(super) async fn owner_of_uri(&self, uri: &str) -> Option<usize> {
        let owner = |list: Arc<MergedList>| list.find(uri).map(|entry| entry.member);
        if let Some(member) = owner(self.known(ListKind::Resources)) {
            return Some(member);
        }
        self.fetch(ListKind::Resources).await;
        if let Some(member) = owner(self.known(ListKind::Resources)) {
            return Some(member);
        }
        self.fetch(ListKind::ResourceTemplates).await;
        let templates = self.known(ListKind::ResourceTemplates);
        let matching = templates.all().iter().filter_map(|entry| {
            let length = matches_template(&entry.key, uri)?;
            Some((length, std::cmp::Reverse(entry.member)))
        });
        matching.max().map(|(_, member)| member.0)
    }

    /// Marks a list of a member as outdated. Call this method when the member reports a change. A change of
    /// the resources also concerns the resource templates.
    pub(super) fn invalidate(&self, member: usize, kind: ListKind) {
        self.members[member].lists.invalidate(kind);
        if kind == ListKind::Resources {
            self.members[member].lists.invalidate(ListKind::ResourceTemplates);
        }
    }

    /// Marks the list that `change` names as outdated.
    pub(super) fn invalidate_change(&self, member: usize, change: &Change) {
        match change {
            Change::Tools => self.invalidate(member, ListKind::Tools),
            Change::Prompts => self.invalidate(member, ListKind::Prompts),
            Change::Resources => self.invalidate(member, ListKind::Resources),
            Change::Resource(_) => {}
        }
    }

    /// Marks all lists of a member as outdated. Call this method when the member has connected again.
    pub(super) fn invalidate_member(&self, member: usize) {
        for kind in ListKind::ALL {
            self.members[member].lists.invalidate(kind);
        }
    }

    /// Returns the number of items in the last list of a member, if the member has sent this list.
    pub(super) fn count(&self, member: usize, kind: ListKind) -> Option<usize> {
        self.members[member].lists.last(kind).map(|list| list.items.len())
    }

    /// Returns the items that the endpoint does not offer, according to the last lists of the members.
    pub(super) fn withheld(&self) -> Vec<(ListKind, WithheldItem)> {
        let of_kind = |kind| {
            let inputs = self.last_inputs(kind);
            let merged = self.known(kind);
            let withheld = withheld(&inputs, &merged).map(Cow::into_owned);
            withheld.map(|item| (kind, item)).collect::<Vec<_>>()
        };
        ListKind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// Requests the lists of all members at the same time, and waits for them. Returns `None` for each
    /// missing member.
    pub(super) async fn fetch(&self, kind: ListKind) -> Vec<Option<Arc<MemberList>>> {
        let lookups: Vec<_> = self.members.iter().map(|member| member.lists.begin(kind)).collect();
        let mut lists = Vec::with_capacity(lookups.len());
        for (member, lookup) in self.members.iter().zip(lookups) {
            lists.push(member.lists.finish(kind, lookup).await);
        }
        lists
    }

    /// Requests the list of one member, and waits for it. Returns `None` if the member is missing.
    pub(super) async fn fetch_of(&self, member: usize, kind: ListKind) -> Option<Arc<MemberList>> {
        let lists = &self.members[member].lists;
        lists.finish(kind, lists.begin(kind)).await
    }

    /// Returns a list of one member that clients may still use without waiting. If there is none, starts to fetch it
    /// and returns `None`.
    pub(super) fn current_of(&self, member: usize, kind: ListKind) -> Option<Arc<MemberList>> {
        match self.members[member].lists.begin(kind) {
            Lookup::Ready(list) => list,
            Lookup::Waiting(..) => None,
        }
    }

    /// Returns the last list of one member, regardless of its age. If the member has never sent it, starts to fetch
    /// it and returns `None`.
    pub(super) fn last_of(&self, member: usize, kind: ListKind) -> Option<Arc<MemberList>> {
        let lists = &self.members[member].lists;
        let last = lists.last(kind);
        if last.is_none() {
            lists.request_first(kind);
        }
        last
    }

    /// Returns the permission for clients to cache a list that consists of `lists`.
    fn cache_hint(&self, lists: &[Option<Arc<MemberList>>], is_partial: bool) -> CacheHint {
        let ttl_max = if is_partial { PARTIAL_TTL } else { self.options.list_ttl_max };
        let ttl_ms = u64::try_from(ttl_max.min(self.options.list_ttl_max).as_millis()).unwrap_or(u64::MAX);
        let most = CacheHint { ttl_ms, cache_scope: CacheScope::Public };
        lists.iter().flatten().fold(most, |hint, list| combine(hint, list.hint_now()))
    }

    /// Returns the merged list of the last lists that the members have sent, regardless of their age. This
    /// list contains the owner of each name, also while a member is missing.
    pub(super) fn known(&self, kind: ListKind) -> Arc<MergedList> {
        self.merge(kind, Audience::Gateway, self.last_inputs(kind))
    }

    fn last_inputs(&self, kind: ListKind) -> Vec<Input> {
        let lists = self.members.iter().map(|member| member.lists.last(kind));
        lists.map(|list| Input { list, is_listed: false }).collect()
    }

    /// Merges the lists, unless the last merged list consists of the same lists.
    fn merge(&self, kind: ListKind, audience: Audience, inputs: Vec<Input>) -> Arc<MergedList> {
        // The lock is held during the merge, so that concurrent requests do the work only once.
        let mut cached = lock(&self.merged);
        if let Some(cached) = cached.get(&(kind, audience)).filter(|cached| cached.is_of(&inputs)) {
            return cached.merged.clone();
        }
        let adapted: Vec<_> = inputs.iter().map(|input| input.items(kind, audience)).collect();
        let members = inputs.iter().zip(&adapted).enumerate().map(|(member, (input, items))| MemberItems {
            member,
            items,
            is_listed: input.is_listed,
        });
        let merged = MergedList::merge(&self.names, kind, &members.collect::<Vec<_>>());
        self.log_withheld(kind, &inputs, &merged);
        let merged = Arc::new(merged);
        drop(adapted);
        cached.insert((kind, audience), CachedMerge { inputs, merged: merged.clone() });
        merged
    }

    /// Logs each withheld item once.
    fn log_withheld(&self, kind: ListKind, inputs: &[Input], merged: &MergedList) {
        let mut logged = lock(&self.logged);
        for item in withheld(inputs, merged) {
            let is_intended = matches!(item.reason, Withheld::Hidden | Withheld::OtherMember(_));
            if is_intended || logged.len() >= LOGGED_MAX {
                continue;
            }
            if logged.insert((kind, item.member, item.own.clone())) {
                self.log(kind, &item);
            }
        }
    }

    fn log(&self, kind: ListKind, item: &WithheldItem) {
        let server = self.names.member_name(item.member);
        let (own, list) = (item.own.escape_debug(), kind.result_member());
        match &item.reason {
            // One line for all members with this name.
            Withheld::Clash(members) if members.first() == Some(&item.member) => {
                let servers = members.iter().map(|member| self.names.member_name(*member).as_str());
                let servers = servers.collect::<Vec<_>>().join(", ");
                tracing::warn!(
                    "withholding `{own}` of {list}: several servers have this name: {servers}; set \
                     `prefer` or use prefixed names"
                );
            }
            Withheld::Clash(_) | Withheld::Hidden | Withheld::OtherMember(_) => {}
            Withheld::TooLong => tracing::warn!(
                %server,
                "withholding `{own}` of {list}: the public name is longer than 128 characters"
            ),
            Withheld::Invalid => {
                tracing::warn!(%server, "withholding `{own}` of {list}: the item has no valid name or URI");
            }
            Withheld::NameReused => tracing::warn!(
                %server,
                "withholding `{own}` of {list}: `rename` gives this name to another tool"
            ),
            Withheld::Duplicate => {
                tracing::warn!(%server, "withholding a second `{own}` of {list}: the name is in use");
            }
            Withheld::Reserved => tracing::warn!(
                %server,
                "withholding `{own}` of {list}: the tool search of the endpoint uses this name; rename the \
                 tool or use prefixed names"
            ),
            Withheld::TooMany => tracing::warn!(
                %server,
                "withholding the rest of {list}: the list has more than 10,000 items, 64 pages or 32 MiB, \
                 or it repeats a cursor"
            ),
        }
    }
}

impl Input {
    fn items(&self, kind: ListKind, audience: Audience) -> Cow<'_, [ListItem]> {
        self.list.as_ref().map_or(Cow::Borrowed(&[]), |list| adapt(kind, audience, list))
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same_list = match (&self.list, &other.list) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        is_same_list && self.is_listed == other.is_listed
    }
}

impl CachedMerge {
    fn is_of(&self, inputs: &[Input]) -> bool {
        self.inputs.iter().zip(inputs).all(|(one, other)| one.is_same(other))
    }
}

/// Returns the withheld items of all members.
fn withheld<'a>(inputs: &'a [Input], merged: &'a MergedList) -> impl Iterator<Item = Cow<'a, WithheldItem>> {
    let of_member = |(member, input): (usize, &'a Input)| {
        let items = input.list.iter().flat_map(|list| &list.withheld);
        items.map(move |(own, reason)| WithheldItem { member, own: own.clone(), reason: reason.clone() })
    };
    let of_members = inputs.iter().enumerate().flat_map(of_member).map(Cow::Owned);
    merged.withheld().iter().map(Cow::Borrowed).chain(of_members)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<MissingMember> for Error {
    fn from(missing: MissingMember) -> Self {
        let MissingMember { name } = missing;
        Self::internal(format!("the list is incomplete: the required server `{name}` is unavailable"))
            .with_data(json!({"server": name.as_str()}))
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Maximum time for which clients may cache a list in which a member is missing.
const PARTIAL_TTL: Duration = Duration::from_secs(5);

/// Maximum of the times in the options. Longer times could exceed the range of `Instant`.
const TIME_MAX: Duration = Duration::from_hours(365 * 24);

/// Maximum number of withheld items in the log.
const LOGGED_MAX: usize = 1000;
