//! The state of a gateway: its members, and the lists of all members.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::federated::{EndpointNames, ListKind};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{JsonObject, ListCapability, ResourcesCapability, ServerCapabilities};
use thruway_mcp_server::McpServer;
use thruway_mcp_server::backend::{Caller, Change, DroppedMessages, SharedChanges, Shares};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::audit::{AuditSink, AuditedCall, AuditedRequest};
use super::builder::{McpGatewayBuilder, Member};
use super::catalog::{Catalog, CatalogMember, CatalogOptions, MissingMember};
use super::confirm::UsedStates;
use super::durable::DurableTasks;
use super::limits::CallLimits;
use super::listing::Listing;
use super::member::{Link, MemberConnection, MemberListSource};
use super::rules::{Access, AccessRules, UnmatchedPattern};
use super::search::SearchState;
use crate::bridge::{BridgeCore, BridgeOptions, CallsInFlight, Connector, MemberCredentials, Near};

/// The state of a gateway.
pub(super) struct GatewayCore {
    pub(super) names: Arc<EndpointNames>,
    /// The members, in the order of `names`.
    pub(super) members: Box<[Arc<MemberConnection>]>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) dropped: Arc<DroppedMessages>,
    /// The access rules. `None` if all callers may use everything.
    rules: Option<AccessRules>,
    /// The tool search, if requested.
    pub(super) search: Option<SearchState>,
    /// The limits for calls of each caller.
    pub(super) limits: Arc<CallLimits>,
    /// The used confirmations. `None` if calls need no confirmation.
    pub(super) confirmations: Option<UsedStates>,
    /// The tasks that survive this gateway, if requested.
    pub(super) durable: Option<Arc<DurableTasks>>,
    /// Maximum time to wait for an answer of the user.
    pub(super) question_wait: Duration,
    /// Receives the audit events, if requested.
    audit: Option<Arc<dyn AuditSink>>,
    /// Number of sessions since the start.
    sessions: AtomicU64,
    /// Maximum time that a request waits for a member.
    pub(super) list_wait: Duration,
    near: Near,
    /// The requests for which the gateway selects a member or prepares a list. Each member counts the requests
    /// that have reached it.
    pub(super) calls: CallsInFlight,
    /// The tasks that keep the gateway connected to its members.
    connecting: Box<[AbortHandle]>,
}

impl GatewayCore {
    /// Creates the state, and starts to connect to the members.
    pub(super) fn start(
        builder: McpGatewayBuilder,
        names: EndpointNames,
        rules: Option<AccessRules>,
        limits: CallLimits,
    ) -> Arc<Self> {
        let McpGatewayBuilder { info, options, members, audit, archive, .. } = builder;
        let (near, dropped) = (Near::default(), Arc::<DroppedMessages>::default());
        let (names, limits) = (Arc::new(names), Arc::new(limits));
        let is_required: Vec<_> = members.iter().map(|member| member.is_required).collect();
        let members: Box<[_]> = members
            .into_iter()
            .enumerate()
            .map(|(slot, member)| {
                let name = names.member_name(slot).clone();
                let link = Link::new(&names, slot, &limits);
                let connector = connector(member, slot, &options.bridge, &near, &dropped, &link);
                MemberConnection::new(name, connector, link, options.list_wait)
            })
            .collect();
        let listed = members.iter().zip(is_required).map(|(member, is_required)| CatalogMember {
            source: Arc::new(MemberListSource(member.clone())),
            is_required,
        });
        let catalog_options = CatalogOptions {
            list_wait: options.list_wait,
            list_ttl_max: options.list_ttl_max,
            page_entries: options.page_items.max(1),
            client_info: info,
        };
        let announced = near.clone();
        let on_change = move |kind| announce(&announced, &change_of(kind));
        let catalog = Arc::new(Catalog::new(names.clone(), listed.collect(), catalog_options, on_change));
        members.iter().for_each(|member| member.invalidate_in(&catalog));
        let connecting = members.iter().map(|member| tokio::spawn(member.clone().run()).abort_handle());
        let connecting = connecting.collect();
        let list_wait = options.list_wait;
        let search = options.search.map(SearchState::new);
        let confirmations = options.confirm_destructive.then(UsedStates::default);
        let replica_ids = options.bridge.server.replica_ids.clone();
        let durable = archive.map(|archive| DurableTasks::new(archive, replica_ids));
        let question_wait = options.bridge.question_wait;
        let sessions = AtomicU64::new(0);
        Arc::new(Self {
            names,
            members,
            catalog,
            dropped,
            rules,
            search,
            limits,
            confirmations,
            durable,
            question_wait,
            audit,
            sessions,
            list_wait,
            near,
            calls: CallsInFlight::default(),
            connecting,
        })
    }

    /// Returns the number of a new session, counted from 1.
    pub(super) fn next_session_number(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Begins the audit of a request. Returns `None` if the request needs no audit event and no statistics.
    pub(super) fn audit(&self, request: &AuditedRequest<'_>) -> Option<AuditedCall> {
        AuditedCall::begin(self.audit.as_ref(), request)
    }

    /// Returns the receiver of audit events, if requested.
    pub(super) const fn audit_sink(&self) -> Option<&Arc<dyn AuditSink>> {
        self.audit.as_ref()
    }

    /// Returns the permissions of a caller. Returns `None` if all callers may use everything.
    pub(super) fn access_of(&self, caller: &Caller) -> Option<Access<'_>> {
        self.rules.as_ref().map(|rules| rules.access_of(caller))
    }

    /// Returns the list that a client gets.
    ///
    /// # Errors
    /// A required member is missing.
    pub(super) async fn list(
        &self,
        kind: ListKind,
        revision: Revision,
        access: Option<&Access<'_>>,
    ) -> Result<Listing, MissingMember> {
        let all = self.catalog.list(kind, revision, access).await?;
        match self.search.as_ref().filter(|_| kind == ListKind::Tools) {
            Some(search) => Ok(search.shorten(all, revision, access)),
            None => Ok(all),
        }
    }

    /// Returns the patterns of the access rules that match no item.
    pub(super) async fn unmatched_patterns(&self) -> Result<Vec<UnmatchedPattern>, Error> {
        let Some(rules) = &self.rules else { return Ok(Vec::new()) };
        let mut unmatched = Vec::new();
        let kinds: [&[_]; 3] =
            [&[ListKind::Tools], &[ListKind::Resources, ListKind::ResourceTemplates], &[ListKind::Prompts]];
        for kinds in kinds {
            let mut keys = Vec::new();
            for kind in kinds {
                let listing = self.catalog.list(*kind, Revision::LATEST, None).await?;
                keys.extend(listing.entries().map(|entry| entry.key.as_ref().to_owned()));
            }
            unmatched.extend(rules.unmatched(kinds[0], &keys));
        }
        Ok(unmatched)
    }

    /// Sets the MCP server that notifies clients of changes.
    pub(super) fn announce_to(&self, server: &McpServer) {
        self.near.get_or_init(|| Arc::downgrade(server.core()));
    }

    /// Notifies all clients that subscribed to `change`.
    pub(super) fn announce(&self, change: &Change) {
        announce(&self.near, change);
    }

    /// Marks the lists that have changed on another replica as outdated. The lists of members over HTTP are the same
    /// on each replica, and this replica gets their notifications itself.
    pub(super) fn note_shared_changes(&self, changes: &SharedChanges) {
        for (slot, _) in self.members.iter().enumerate().filter(|(_, member)| member.is_of_replica()) {
            for change in changes.changed_lists() {
                self.catalog.invalidate_change(slot, &change);
            }
        }
    }

    /// Returns the capabilities of all members together. Lists can always change, because members come and
    /// go.
    pub(super) fn capabilities(&self, revision: Revision) -> ServerCapabilities {
        let mut all = ServerCapabilities::default();
        for member in &self.members {
            add(&mut all, member.capabilities(revision));
        }
        if self.search.is_some() {
            all.tools = Some(ListCapability { list_changed: Some(true) });
        }
        all
    }

    /// Waits until no call is in progress, or until the timeout `within`.
    pub(super) async fn calls_ended(&self, within: Duration) {
        let ended = async {
            self.calls.none().await;
            for bridge in self.bridges() {
                bridge.calls_ended().await;
            }
        };
        let _ = timeout(within, ended).await;
    }

    /// Returns the bridges to the members that were connected at least once.
    pub(super) fn bridges(&self) -> impl Iterator<Item = &Arc<BridgeCore>> {
        self.members.iter().filter_map(|member| member.bridge())
    }

    /// Waits until all calls have ended, or until the timeout `within`. Then disconnects from all members
    /// permanently.
    pub(super) async fn drain(&self, within: Duration) {
        let began = Instant::now();
        // Requests that wait for a member need the tasks that connect to it.
        self.calls.none_within(within, "any").await;
        self.connecting.iter().for_each(AbortHandle::abort);
        let within = within.saturating_sub(began.elapsed());
        let bridges = self.bridges().cloned();
        let draining: Vec<_> =
            bridges.map(|bridge| tokio::spawn(async move { bridge.drain(within).await })).collect();
        for drained in draining {
            // An error means that the task panicked, so nothing is left to wait for.
            let _ = drained.await;
        }
    }
}

impl Drop for GatewayCore {
    fn drop(&mut self) {
        self.connecting.iter().for_each(AbortHandle::abort);
    }
}

fn announce(near: &Near, change: &Change) {
    if let Some(core) = near.get().and_then(Weak::upgrade) {
        core.announce(change);
    }
}

fn connector(
    member: Member,
    slot: usize,
    options: &BridgeOptions,
    near: &Near,
    dropped: &Arc<DroppedMessages>,
    link: &Arc<Link>,
) -> Connector {
    let mut options = options.clone();
    options.servers_max = member.servers_max.unwrap_or(options.servers_max);
    Connector {
        capacity: Shares::new(options.servers_max),
        options,
        connect: member.connect,
        near: near.clone(),
        dropped: dropped.clone(),
        is_ending: Arc::default(),
        slot,
        member: Some(link.clone()),
        credentials: member.access.map(|access| MemberCredentials::new(&member.name, access)),
    }
}

/// Adds the capabilities of one member.
fn add(all: &mut ServerCapabilities, member: ServerCapabilities) {
    let changing = ListCapability { list_changed: Some(true) };
    all.tools = all.tools.or(member.tools.map(|_| changing));
    all.prompts = all.prompts.or(member.prompts.map(|_| changing));
    if member.resources.is_some() {
        all.resources = Some(ResourcesCapability { subscribe: Some(true), list_changed: Some(true) });
    }
    add_members(&mut all.completions, member.completions);
    add_members(&mut all.logging, member.logging);
    add_members(&mut all.tasks, member.tasks);
    add_members(&mut all.extensions, member.extensions);
}

fn add_members(all: &mut Option<JsonObject>, more: Option<JsonObject>) {
    match (all.as_mut(), more) {
        (_, None) => {}
        (None, more) => *all = more,
        (Some(all), Some(more)) => {
            for (name, value) in more {
                all.entry(name).or_insert(value);
            }
        }
    }
}

const fn change_of(kind: ListKind) -> Change {
    match kind {
        ListKind::Tools => Change::Tools,
        ListKind::Prompts => Change::Prompts,
        ListKind::Resources | ListKind::ResourceTemplates => Change::Resources,
    }
}

impl fmt::Debug for GatewayCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayCore").field("members", &self.members).finish_non_exhaustive()
    }
}
