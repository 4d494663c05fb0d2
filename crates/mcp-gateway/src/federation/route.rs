//! Selects the member for a request.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use thruway_mcp::federated::ListKind;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::members::append_members;
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{CompleteRequestParams, CompletionReference, methods};
use thruway_mcp::{Era, Revision};
use thruway_mcp_server::backend::{Caller, require_tasks};

use super::audit::CallProgress;
use super::catalog::MissingMember;
use super::gateway_core::GatewayCore;
use super::limits::{CallPermits, LimitExceeded};
use super::member::MemberConnection;
use super::rules::Access;
use super::visible_members::VisibleMembers;
use crate::bridge::{BridgeCore, no_method, replaced};

/// A request of a client, as far as the selection of the member depends on it.
pub(super) struct Routed<'r> {
    pub(super) method: &'r str,
    pub(super) params: Option<&'r RawValue>,
    pub(super) revision: Revision,
    pub(super) caller: &'r Caller,
    /// The permissions of the caller. `None` permits everything.
    pub(super) access: Option<Access<'r>>,
    /// Gets the selected member and tool, for the audit and for statistics.
    pub(super) progress: Option<&'r CallProgress>,
}

impl Routed<'_> {
    /// Returns `true` if the caller can see and use the item.
    fn permits(&self, kind: ListKind, key: &str) -> bool {
        self.access.as_ref().is_none_or(|access| access.allows(kind, key))
    }
}

/// The member for a request.
pub(super) struct Target {
    /// The index of the member.
    pub(super) member: usize,
    pub(super) bridge: Arc<BridgeCore>,
    /// The parameters for the member, if they differ from the client's parameters.
    pub(super) params: Option<Box<RawValue>>,
    /// Counts the request toward limits until this value is dropped.
    pub(super) permits: CallPermits,
}

/// The reason why no member can handle a request.
pub(super) enum Refusal {
    /// The request is invalid, or names an unknown tool, prompt, resource or task.
    Invalid(Error),
    /// The member for the request is missing.
    Unavailable(Error),
    /// The caller has reached a limit.
    Limited(Error),
}

/// The index of a member, and the parameters for this member if they differ from the client's parameters.
type Selected = (usize, Option<Box<RawValue>>);

impl Refusal {
    pub(super) const fn error(&self) -> &Error {
        match self {
            Self::Invalid(error) | Self::Unavailable(error) | Self::Limited(error) => error,
        }
    }
}

impl From<MissingMember> for Refusal {
    fn from(missing: MissingMember) -> Self {
        Self::Unavailable(missing.into())
    }
}

impl GatewayCore {
    /// Selects the member for a request. Waits while the gateway is connecting to this member.
    pub(super) async fn route(&self, request: &Routed<'_>) -> Result<Target, Refusal> {
        let (member, params) = self.select(request).await.map_err(Refusal::Invalid)?;
        if let Some(progress) = request.progress {
            let MemberConnection { name, counters, .. } = &*self.members[member];
            progress.select(name, counters);
        }
        let permits = self.admit(request)?;
        let bridge = self.members[member].connected().await.map_err(Refusal::Unavailable)?;
        Ok(Target { member, bridge, params, permits })
    }

    /// Counts a call of a tool toward the limits of its caller.
    fn admit(&self, request: &Routed<'_>) -> Result<CallPermits, Refusal> {
        if request.method != methods::TOOLS_CALL {
            return Ok(CallPermits::new());
        }
        let params = Params::parse(request.params).map_err(Refusal::Invalid)?;
        let tool = params.name.as_deref().unwrap_or_default();
        self.limits.admit(request.caller, tool).map_err(|exceeded| Refusal::Limited(too_many_calls(exceeded)))
    }

    async fn select(&self, request: &Routed<'_>) -> Result<Selected, Error> {
        let raw = request.params;
        let params = Params::parse(raw)?;
        match request.method {
            methods::TOOLS_CALL => self.select_by_name(request, ListKind::Tools, &params).await,
            methods::PROMPTS_GET => self.select_by_name(request, ListKind::Prompts, &params).await,
            methods::RESOURCES_READ | methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE => {
                let uri = Params::required("uri", params.uri.as_ref())?;
                check_spelling(raw, "uri")?;
                if !request.permits(ListKind::Resources, uri) {
                    return Err(unknown_resource(request, uri));
                }
                let owner = self.owner_of_uri(uri).await;
                self.selected_by_uri(request, owner, uri, &["uri"])
            }
            methods::COMPLETION_COMPLETE => self.select_by_reference(request).await,
            methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL | methods::TASKS_RESULT => {
                if request.revision.era() == Era::Modern {
                    // Clients without support for tasks get the same error for all ids.
                    require_tasks(&params)?;
                }
                let id = Params::required("taskId", params.task_id.as_ref())?;
                // The member's bridge checks the whole id, including the name of the member.
                let member = id.split_once('.').and_then(|(member, _)| self.names.member(member));
                let member = member.ok_or_else(unknown_task)?;
                let is_visible = VisibleMembers::of(self, request.caller).await.contains(member);
                if is_visible { Ok((member, None)) } else { Err(unknown_task()) }
            }
            _ => Err(no_method()),
        }
    }

    async fn select_by_name(
        &self,
        request: &Routed<'_>,
        kind: ListKind,
        params: &Params<'_>,
    ) -> Result<Selected, Error> {
        let name = Params::required("name", params.name.as_ref())?;
        check_spelling(request.params, "name")?;
        // A confirmation by the user covers only `arguments`.
        check_spelling(request.params, "arguments")?;
        self.select_named(request, kind, name, &["name"]).await
    }

    /// Selects the member that owns `name`. Replaces the name at `path` in the parameters with the member's
    /// own name.
    async fn select_named(
        &self,
        request: &Routed<'_>,
        kind: ListKind,
        name: &str,
        path: &[&str],
    ) -> Result<Selected, Error> {
        if !request.permits(kind, name) {
            return Err(unknown_name(kind, name));
        }
        let owner = self.catalog.owner_of_name(kind, name).await;
        let (member, own) = owner.ok_or_else(|| unknown_name(kind, name))?;
        if let Some(progress) = request.progress.filter(|_| kind == ListKind::Tools) {
            let counters = &self.members[member].counters;
            progress.select_tool(counters.of_tool(name, || self.catalog.lists_tool(member, name)));
        }
        let is_same = own == name;
        let params = request.params.filter(|_| !is_same).and_then(|raw| replaced(raw, path, &own));
        if params.is_none() && !is_same {
            return Err(unknown_name(kind, name));
        }
        Ok((member, params))
    }

    /// Selects the member for a completion: the owner of the prompt or of the resource template.
    async fn select_by_reference(&self, request: &Routed<'_>) -> Result<Selected, Error> {
        let params: CompleteRequestParams = params::parse(request.params)?;
        check_spelling(request.params, "ref")?;
        let reference: ReferenceOf<'_> = params::parse(request.params)?;
        match &params.reference {
            CompletionReference::Prompt(prompt) => {
                check_spelling(reference.members, "name")?;
                self.select_named(request, ListKind::Prompts, &prompt.name, &["ref", "name"]).await
            }
            CompletionReference::Resource(template) => {
                let uri = template.uri.as_str();
                check_spelling(reference.members, "uri")?;
                if !request.permits(ListKind::ResourceTemplates, uri) {
                    return Err(unknown_resource(request, uri));
                }
                let templates = self.catalog.list(ListKind::ResourceTemplates, request.revision, None).await;
                let owner = templates.ok().and_then(|templates| {
                    templates.entries().find(|entry| *entry.key == *uri).map(|entry| entry.member)
                });
                let owner = match owner {
                    Some(owner) => Some(owner),
                    None => self.owner_of_uri(uri).await,
                };
                self.selected_by_uri(request, owner, uri, &["ref", "uri"])
            }
        }
    }

    /// Replaces the public URI at `path` in the parameters with the own URI of the member `owner`.
    fn selected_by_uri(
        &self,
        request: &Routed<'_>,
        owner: Option<usize>,
        uri: &str,
        path: &[&str],
    ) -> Result<Selected, Error> {
        let unknown = || unknown_resource(request, uri);
        let member = owner.ok_or_else(unknown)?;
        let Some(uris) = self.names.uris_of(member) else { return Ok((member, None)) };
        let own = uris.own(uri).ok_or_else(unknown)?;
        let params = request.params.and_then(|raw| replaced(raw, path, &own)).ok_or_else(unknown)?;
        Ok((member, Some(params)))
    }

    /// Returns the member that owns a resource. A resource that is in no list belongs to the only member with
    /// resources, if there is exactly one. The prefix of a rewritten URI names its member.
    pub(super) async fn owner_of_uri(&self, uri: &str) -> Option<usize> {
        if let Some(owner) = self.names.owner_by_prefix(uri) {
            return Some(owner);
        }
        if let Some(owner) = self.catalog.owner_of_uri(uri).await {
            return Some(owner);
        }
        let has_resources = |index: &usize| {
            let member = &self.members[*index];
            self.names.uris_of(*index).is_none()
                && member.revision().is_none_or(|revision| member.capabilities(revision).resources.is_some())
        };
        let mut candidates = (0..self.members.len()).filter(has_resources);
        candidates.next().filter(|_| candidates.next().is_none())
    }
}

/// The reference in the parameters of `completion/complete`.
#[derive(Deserialize)]
struct ReferenceOf<'r> {
    #[serde(borrow, rename = "ref")]
    members: Option<&'r RawValue>,
}

/// Checks that `object` has no member such as `Name` if `expected` is `name`. Some servers ignore the case of
/// member names. Such a server would use another name or URI than the one that the gateway has checked.
fn check_spelling(object: Option<&RawValue>, expected: &str) -> Result<(), Error> {
    let mut other = None;
    if let Some(object) = object {
        let checked = append_members(&mut Vec::new(), object, |name, _| {
            if name != expected && name.eq_ignore_ascii_case(expected) {
                other = Some(name.to_owned());
            }
            false
        });
        checked.map_err(|_| Error::invalid_params("expected an object"))?;
    }
    match other {
        Some(other) => Err(Error::invalid_params(format!("unknown member `{other}`: use `{expected}`"))),
        None => Ok(()),
    }
}

/// Returns the error for a name that is unknown, hidden or withheld. The error must not show which of these
/// reasons applies.
fn unknown_name(kind: ListKind, name: &str) -> Error {
    let noun = if kind == ListKind::Tools { "tool" } else { "prompt" };
    let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
    Error::invalid_params(format!("Unknown {noun}: {name}"))
}

fn unknown_resource(request: &Routed<'_>, uri: &str) -> Error {
    let code = match request.revision.era() {
        Era::Legacy => ErrorCode::RESOURCE_NOT_FOUND,
        Era::Modern => ErrorCode::INVALID_PARAMS,
    };
    Error::new(code, "Resource not found").with_data(json!({"uri": uri}))
}

/// Returns the error for a call that is not within a limit. It has the same form as the error for a missing member.
fn too_many_calls(exceeded: LimitExceeded) -> Error {
    let retry_after = exceeded.retry_after.as_nanos().div_ceil(1_000_000);
    let retry_after = u64::try_from(retry_after).unwrap_or(u64::MAX);
    Error::internal(format!("too many tool calls by this caller: retry in {retry_after} ms"))
        .with_data(json!({"retryAfterMs": retry_after}))
}

fn unknown_task() -> Error {
    Error::invalid_params("there is no such task")
}

/// Maximum length of a client's name for a tool or prompt in an error, in bytes.
const NAME_BYTES_MAX: usize = 200;
