//! The state of members, for status pages.

use thruway_mcp::Revision;
use thruway_mcp::federated::{EndpointNames, ListKind, Withheld};

use super::call_stats::MemberCalls;
use super::gateway_core::GatewayCore;
use super::member::ConnectionState;

/// The state of a member.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberStatus {
    /// The name of the member.
    pub name: String,
    /// The state of the connection to the member.
    pub state: MemberState,
    /// The protocol revision that the gateway uses for modern clients. `None` before the first connection.
    pub revision: Option<Revision>,
    /// The error of the last attempt to connect, or the reason why the gateway lost the member. `None` if the
    /// gateway is connected to the member.
    pub last_error: Option<String>,
    /// Number of the member's tools, including withheld tools. `None` if the gateway has no list yet.
    pub tools: Option<usize>,
    /// Number of the member's prompts.
    pub prompts: Option<usize>,
    /// Number of the member's resources.
    pub resources: Option<usize>,
    /// Number of the member's resource templates.
    pub templates: Option<usize>,
    /// `true` if other members can use the plain names of this member, because it has not sent its list of
    /// tools or prompts within [`list_wait`](crate::McpGatewayOptions::list_wait).
    pub has_unreserved_names: bool,
    /// The items of the member that clients do not get.
    pub withheld: Vec<WithheldItem>,
    /// The calls of the member.
    pub calls: MemberCalls,
}

/// The state of the connection to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// The gateway is trying to connect.
    Connecting,
    /// The gateway is connected to the member.
    Connected,
    /// The last attempt to connect has failed. The gateway tries again after a pause.
    Failed,
}

/// An item of a member that clients do not get.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WithheldItem {
    /// The member's name for the tool or prompt, or the URI of the resource or template.
    pub name: String,
    /// The reason.
    pub reason: String,
    /// `true` if the configuration says so: a filter hides the tool, or another member comes first. `false` for
    /// clashes of names and for invalid items.
    pub is_intended: bool,
}

/// Returns the state of each member.
pub(super) fn of_members(gateway: &GatewayCore) -> Vec<MemberStatus> {
    let mut all: Vec<_> = (0..gateway.members.len()).map(|member| of_member(gateway, member)).collect();
    for (_, item) in gateway.catalog.withheld() {
        if let Some(status) = all.get_mut(item.member) {
            let is_intended = matches!(item.reason, Withheld::Hidden | Withheld::OtherMember(_));
            let reason = reason(&gateway.names, &item.reason);
            status.withheld.push(WithheldItem { name: item.own.into(), reason, is_intended });
        }
    }
    all
}

fn of_member(gateway: &GatewayCore, member: usize) -> MemberStatus {
    let connection = &gateway.members[member];
    let (state, last_error) = match connection.state() {
        ConnectionState::Connecting { last_error } => (MemberState::Connecting, last_error),
        ConnectionState::Connected => (MemberState::Connected, None),
        ConnectionState::Failed { error, .. } => (MemberState::Failed, Some(error)),
    };
    let count = |kind| gateway.catalog.count(member, kind);
    MemberStatus {
        name: connection.name.as_str().to_owned(),
        state,
        revision: connection.revision(),
        last_error: last_error.map(|error| error.as_ref().to_owned()),
        tools: count(ListKind::Tools),
        prompts: count(ListKind::Prompts),
        resources: count(ListKind::Resources),
        templates: count(ListKind::ResourceTemplates),
        has_unreserved_names: gateway.catalog.has_unreserved_names(member),
        withheld: Vec::new(),
        calls: connection.counters.counts(),
    }
}

/// Describes why clients do not get an item.
fn reason(names: &EndpointNames, withheld: &Withheld) -> String {
    let name_of = |member: usize| names.member_name(member).as_str();
    match withheld {
        Withheld::Hidden => "hidden by the filter of the server's tools".into(),
        Withheld::TooLong => "the public name is longer than 128 characters".into(),
        Withheld::Invalid => "the server sent an item without a valid name".into(),
        Withheld::NameReused => "another tool of the server was renamed to this name".into(),
        Withheld::Duplicate => "the server lists this name twice".into(),
        Withheld::Clash(members) => {
            let members: Vec<_> = members.iter().map(|member| name_of(*member)).collect();
            format!("several servers have this name: {}", members.join(", "))
        }
        Withheld::OtherMember(member) => format!("the server `{}` comes first", name_of(*member)),
        Withheld::Reserved => "the tool search of the endpoint uses this name".into(),
        Withheld::TooMany => "the server's list is too long".into(),
    }
}
