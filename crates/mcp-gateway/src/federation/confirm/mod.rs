//! Confirmation of calls by the user. Before a call of a destructive tool, the gateway asks the client with a form
//! (elicitation).
//!
//! A tool is destructive if its annotations contain `destructiveHint: true`. A tool that its member does not list
//! counts as destructive, because its annotations are unknown.

mod in_session;
mod question;
mod stateless;
mod used_states;

use serde_json::value::RawValue;
use thruway_mcp::federated::ListKind;
use thruway_mcp::params::Params;

use super::gateway_core::GatewayCore;

pub(super) use in_session::SessionToAsk;
pub(super) use question::{CallToConfirm, Unconfirmed};
pub(super) use used_states::UsedStates;

impl GatewayCore {
    /// Asks the user whether the gateway may forward the call, if the call needs a confirmation. Returns the
    /// parameters for the member, if the confirmation changes them.
    /// `session` is the session of a legacy client.
    pub(super) async fn confirm(
        &self,
        call: &CallToConfirm<'_>,
        session: Option<SessionToAsk<'_>>,
    ) -> Result<Option<Box<RawValue>>, Unconfirmed> {
        let Some(used_states) = &self.confirmations else { return Ok(None) };
        let for_member = call.target.params.as_deref().or(call.params);
        let params = Params::parse(for_member).map_err(Unconfirmed::Refused)?;
        let own_name = params.name.as_deref().unwrap_or_default();
        if !self.is_destructive(call.target.member, own_name).await {
            return Ok(None);
        }
        match session {
            Some(session) => session.confirm(call, self.question_wait).await.map(|()| None),
            None => stateless::confirm(call, &params, used_states),
        }
    }

    /// Returns `true` if a call of the tool needs a confirmation. `own_name` is the member's name of the tool.
    async fn is_destructive(&self, member: usize, own_name: &str) -> bool {
        let Some(list) = self.catalog.fetch_of(member, ListKind::Tools).await else { return true };
        list.tool_traits(own_name).is_none_or(|traits| traits.is_destructive)
    }
}
