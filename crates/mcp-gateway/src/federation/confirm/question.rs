//! The question whether the user allows a call.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::Params;
use thruway_mcp::schema::{
    ClientCapabilities, ElicitAction, ElicitRequestFormParams, ElicitResult, PrimitiveSchemaDefinition,
    methods,
};
use thruway_mcp_server::backend::{Caller, Question, ServerCore};

use crate::federation::route::Target;

/// A call that may need a confirmation.
pub(in crate::federation) struct CallToConfirm<'c> {
    pub(in crate::federation) core: &'c ServerCore,
    pub(in crate::federation) caller: &'c Caller,
    /// The parameters of the client.
    pub(in crate::federation) params: Option<&'c RawValue>,
    pub(in crate::federation) target: &'c Target,
}

/// The reason why the gateway does not forward a call.
pub(in crate::federation) enum Unconfirmed {
    /// The client must ask the user, and repeat the call. Contains the members of the result.
    Ask(Value),
    /// The user did not confirm the call. Contains the result for the client.
    Declined(Value),
    /// The call is invalid, or the gateway cannot ask the user.
    Refused(Error),
}

impl CallToConfirm<'_> {
    /// Returns the question for the user. It contains the beginning of the arguments, so that the user knows the
    /// effect of the call.
    pub(super) fn question(&self) -> Result<Question, Unconfirmed> {
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
pub(super) fn check_answer(answer: &ElicitResult) -> Result<(), Unconfirmed> {
    let is_allowed =
        answer.content.as_ref().is_some_and(|content| content.get(FIELD) == Some(&Value::Bool(true)));
    if answer.action == ElicitAction::Accept && is_allowed {
        return Ok(());
    }
    let text = "The user did not allow this call, so the tool was not called.";
    Err(Unconfirmed::Declined(json!({"content": [{"type": "text", "text": text}], "isError": true})))
}

/// Returns `true` if the client can show the question.
pub(super) fn can_ask(capabilities: &ClientCapabilities) -> bool {
    capabilities.has_form_elicitation()
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
