//! Confirmation of calls by the user. Before a call of a destructive tool, the gateway asks the client with a form
//! (elicitation).
//!
//! A tool is destructive if its annotations contain `destructiveHint: true`. A tool that its member does not list
//! counts as destructive, because its annotations are unknown.

mod in_session;
mod stateless;
mod used_states;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thruway_mcp::federated::{ListItem, ListKind};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::Params;
use thruway_mcp::schema::{
    ClientCapabilities, ElicitAction, ElicitRequestFormParams, ElicitResult, PrimitiveSchemaDefinition,
    methods,
};
use thruway_mcp_server::backend::{Caller, Question, ServerCore};

use super::gateway_core::GatewayCore;
use super::route::Target;

pub(super) use in_session::SessionToAsk;
pub(super) use used_states::UsedStates;

/// A call that may need a confirmation.
pub(super) struct CallToConfirm<'c> {
    pub(super) core: &'c ServerCore,
    pub(super) caller: &'c Caller,
    /// The parameters of the client.
    pub(super) params: Option<&'c RawValue>,
    pub(super) target: &'c Target,
    /// The client. `None` for a modern client.
    pub(super) session: Option<SessionToAsk<'c>>,
}

/// The reason why the gateway does not forward a call.
pub(super) enum Unconfirmed {
    /// The client must ask the user, and repeat the call. Contains the members of the result.
    Ask(Value),
    /// The user did not confirm the call. Contains the result for the client.
    Declined(Value),
    /// The call is invalid, or the gateway cannot ask the user.
    Refused(Error),
}

impl GatewayCore {
    /// Asks the user whether the gateway may forward the call, if the call needs a confirmation. Returns the
    /// parameters for the member, if the confirmation changes them.
    pub(super) async fn confirm(
        &self,
        call: &CallToConfirm<'_>,
    ) -> Result<Option<Box<RawValue>>, Unconfirmed> {
        let Some(used_states) = &self.confirmations else { return Ok(None) };
        let for_member = call.target.params.as_deref().or(call.params);
        let params = Params::parse(for_member).map_err(Unconfirmed::Refused)?;
        let own_name = params.name.as_deref().unwrap_or_default();
        if !self.is_destructive(call.target.member, own_name).await {
            return Ok(None);
        }
        match &call.session {
            Some(session) => session.confirm(call, self.question_wait).await.map(|()| None),
            None => stateless::confirm(call, &params, used_states),
        }
    }

    /// Returns `true` if a call of the tool needs a confirmation. `own_name` is the member's name of the tool.
    async fn is_destructive(&self, member: usize, own_name: &str) -> bool {
        let Some(list) = self.catalog.fetch_of(member, ListKind::Tools).await else { return true };
        let tool = list.items.iter().find(|tool| tool.key() == own_name);
        tool.is_none_or(has_destructive_hint)
    }
}

impl CallToConfirm<'_> {
    /// Returns the question for the user. It contains the beginning of the arguments, so that the user knows the
    /// effect of the call.
    fn question(&self) -> Result<Question, Unconfirmed> {
        let params = Params::parse(self.params).map_err(Unconfirmed::Refused)?;
        let tool = shortened(params.name.as_deref().unwrap_or_default());
        let arguments = shortened(params.arguments.map_or("{}", RawValue::get));
        let message = format!(
            "Allow this call? The tool `{tool}` may delete or overwrite data. Arguments: {arguments}"
        );
        let field = PrimitiveSchemaDefinition::boolean().with_title("Allow this call");
        let form = ElicitRequestFormParams::new(message).with_required_field(FIELD, field);
        let params = serde_json::to_value(form)
            .map_err(|_| Unconfirmed::Refused(Error::internal("cannot write the question as JSON")))?;
        Ok(Question { method: methods::ELICITATION_CREATE, params })
    }
}

/// Checks the user's answer.
fn check_answer(answer: &ElicitResult) -> Result<(), Unconfirmed> {
    let is_allowed =
        answer.content.as_ref().is_some_and(|content| content.get(FIELD) == Some(&Value::Bool(true)));
    if answer.action == ElicitAction::Accept && is_allowed {
        return Ok(());
    }
    let text = "The user did not allow this call, so the tool was not called.";
    Err(Unconfirmed::Declined(json!({"content": [{"type": "text", "text": text}], "isError": true})))
}

/// Returns `true` if the client can show the question.
fn can_ask(capabilities: &ClientCapabilities) -> bool {
    capabilities.has_form_elicitation()
}

fn has_destructive_hint(tool: &ListItem) -> bool {
    #[derive(Deserialize)]
    struct Annotated {
        #[serde(default)]
        annotations: Option<Annotations>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Annotations {
        #[serde(default)]
        destructive_hint: Option<bool>,
    }
    let parsed = serde_json::from_str(tool.json().get());
    // Malformed annotations may hide a hint, so they count as a hint.
    parsed.map_or(true, |tool: Annotated| {
        tool.annotations.is_some_and(|annotations| annotations.destructive_hint == Some(true))
    })
}

/// Returns at most `SHOWN_BYTES_MAX` bytes of `text` on one line.
fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    let mut shown: String = text[..end].chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    if end < text.len() {
        shown.push('…');
    }
    shown
}

/// The name of the field in the form.
const FIELD: &str = "allow";

/// Maximum length of the name and of the arguments in a question, in bytes.
const SHOWN_BYTES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destructive_hint_is_read_from_the_annotations() {
        let is_destructive = |annotations: Value| {
            let tool = json!({"name": "a", "annotations": annotations}).to_string();
            let tool = RawValue::from_string(tool).unwrap();
            has_destructive_hint(&ListItem::parse(ListKind::Tools, &tool).unwrap())
        };
        for annotations in [json!({"destructiveHint": true}), json!({"destructiveHint": 1})] {
            assert!(is_destructive(annotations.clone()), "{annotations}");
        }
        for annotations in
            [json!({"destructiveHint": false}), json!({}), json!(null), json!({"readOnlyHint": true})]
        {
            assert!(!is_destructive(annotations.clone()), "{annotations}");
        }
    }

    #[test]
    fn only_an_accepted_form_with_a_checked_field_confirms_the_call() {
        let check = |answer: Value| check_answer(&serde_json::from_value(answer).unwrap());
        assert!(check(json!({"action": "accept", "content": {"allow": true}})).is_ok());
        for answer in [
            json!({"action": "accept", "content": {"allow": false}}),
            json!({"action": "accept", "content": {"allow": "true"}}),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"allow": true}}),
            json!({"action": "cancel"}),
        ] {
            assert!(matches!(check(answer.clone()), Err(Unconfirmed::Declined(_))), "{answer}");
        }
    }

    #[test]
    fn long_arguments_are_shortened() {
        assert_eq!(shortened("{\n\"a\": \"é\"}"), "{ \"a\": \"é\"}");
        assert_eq!(shortened(&"é".repeat(400)).chars().count(), 251);
    }
}
