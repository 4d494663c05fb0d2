//! Confirmation by a modern client: the gateway answers with a question, and the client repeats the call with the
//! answer and a sealed state. The state is valid for one call with the same arguments by the same caller.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::members::{append_member, append_members};
use thruway_mcp::modern::{client_capabilities, missing_capability};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{ClientCapabilities, ElicitResult, ElicitationCapability, methods};
use thruway_mcp_server::backend::{BoundRequest, RequestBinding, State, StateKey};
use thruway_net::{Clock, unguessable_id};

use super::question::{CallToConfirm, Unconfirmed, can_ask, check_answer};
use super::used_states::UsedStates;

/// Answers of the client, by the keys of the questions.
type Answers = BTreeMap<String, Box<RawValue>>;

/// The state between the question and its answer.
#[derive(Serialize, Deserialize)]
struct ConfirmationState {
    /// Identifies the state, so that the client can use it only once.
    id: Box<str>,
    /// Expiry time, in seconds since the Unix epoch.
    expires: u64,
    /// Answers to earlier questions of the member. The member may have sent no state with these questions.
    answers: Answers,
}

/// Checks the confirmation in the parameters of a call, or returns the question. `params` contains the parameters
/// for the member. Returns new parameters for the member, without the confirmation.
pub(super) fn confirm(
    call: &CallToConfirm<'_>,
    params: &Params<'_>,
    used_states: &UsedStates,
) -> Result<Option<Box<RawValue>>, Unconfirmed> {
    let capabilities = client_capabilities(&params.meta).map_err(Unconfirmed::Refused)?;
    if !can_ask(&capabilities) {
        return Err(Unconfirmed::Refused(missing_capability(&required_capabilities())));
    }
    let mut answers = answers_in(params).map_err(Unconfirmed::Refused)?;
    let Some(sealed) = &params.request_state else { return Err(ask(call, answers)) };
    // The member has asked its own question during this call, so the user has already confirmed the call. The state
    // of a modern member would permit any number of calls, so it permits only one call too.
    if call.target.bridge.has_begun(call.core.state_key(), call.caller, methods::TOOLS_CALL, params) {
        let expires = now() + StateKey::LIFETIME.as_secs();
        used_states.take(signature_of(sealed), expires, now()).map_err(Unconfirmed::Refused)?;
        return Ok(None);
    }
    let state = opened(call, sealed).map_err(Unconfirmed::Refused)?;
    let answer = answers.remove(KEY);
    answers.extend(state.answers);
    let Some(answer) = answer else { return Err(ask(call, answers)) };
    let answer: ElicitResult = serde_json::from_str(answer.get()).map_err(|_| {
        Unconfirmed::Refused(Error::invalid_params("the answer to the elicitation is invalid"))
    })?;
    used_states.take(&state.id, state.expires, now()).map_err(Unconfirmed::Refused)?;
    check_answer(&answer)?;
    without_confirmation(call, &answers).map(Some).ok_or_else(|| Unconfirmed::Refused(not_an_object()))
}

/// Returns the end of a sealed state. It identifies the state, and is short.
fn signature_of(sealed: &str) -> &str {
    sealed.rsplit_once('.').map_or(sealed, |(_, signature)| signature)
}

fn answers_in(params: &Params<'_>) -> Result<Answers, Error> {
    let Some(answers) = params.input_responses else { return Ok(Answers::new()) };
    serde_json::from_str(answers.get())
        .map_err(|_| Error::invalid_params("`inputResponses` must be an object"))
}

/// Returns the question, with a new state.
fn ask(call: &CallToConfirm<'_>, answers: Answers) -> Unconfirmed {
    match question(call, answers) {
        Ok(unconfirmed) | Err(unconfirmed) => unconfirmed,
    }
}

fn question(call: &CallToConfirm<'_>, answers: Answers) -> Result<Unconfirmed, Unconfirmed> {
    let question = call.question()?;
    let state = ConfirmationState { id: unguessable_id(), expires: now() + LIFETIME.as_secs(), answers };
    let state = serde_json::to_string(&state)
        .map_err(|_| Unconfirmed::Refused(Error::internal("cannot write the request state as JSON")))?;
    let binding = binding(call).map_err(Unconfirmed::Refused)?;
    // Only this replica opens the state, because the client can use it only once.
    let state = call.core.state_key().seal_for_replica(State::relayed(state), &binding);
    let state = state.map_err(Unconfirmed::Refused)?;
    Ok(Unconfirmed::Ask(json!({"inputRequests": {KEY: question}, "requestState": state})))
}

/// Verifies a state that the client has sent.
fn opened(call: &CallToConfirm<'_>, sealed: &str) -> Result<ConfirmationState, Error> {
    let state = call.core.state_key().open(sealed, &binding(call)?)?;
    let state: Option<ConfirmationState> = state.relayed.and_then(|state| serde_json::from_str(&state).ok());
    let state = state.ok_or_else(|| Error::invalid_params("`requestState` is not valid for this request"))?;
    if state.expires < now() {
        return Err(Error::invalid_params("`requestState` has expired: repeat the request without it"));
    }
    Ok(state)
}

/// Returns a digest of the caller, the tool and the arguments. The name of the method differs from all real
/// methods, so that a member's state is never a confirmation.
fn binding(call: &CallToConfirm<'_>) -> Result<RequestBinding, Error> {
    let params = Params::parse(call.params)?;
    Ok(BoundRequest::new(call.caller, "confirmation of tools/call", &params).binding())
}

/// Returns the parameters for the member without the state and the answer of the confirmation.
fn without_confirmation(call: &CallToConfirm<'_>, answers: &Answers) -> Option<Box<RawValue>> {
    let params = call.target.params.as_deref().or(call.params)?;
    let mut output = vec![b'{'];
    append_members(&mut output, params, |name, _| name != "requestState" && name != "inputResponses").ok()?;
    if !answers.is_empty() {
        append_member(&mut output, "inputResponses", &serde_json::to_string(answers).ok()?);
    }
    output.push(b'}');
    RawValue::from_string(String::from_utf8(output).ok()?).ok()
}

fn required_capabilities() -> ClientCapabilities {
    let form = ElicitationCapability { form: Some(serde_json::Map::new()), url: None };
    ClientCapabilities { elicitation: Some(form), ..ClientCapabilities::default() }
}

fn not_an_object() -> Error {
    Error::invalid_params("expected an object")
}

fn now() -> u64 {
    let since_epoch = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

/// The key of the question. A member cannot use this key for its own question in the same round.
const KEY: &str = "thruway/confirm";

/// Time in which the user must confirm a call.
const LIFETIME: Duration = Duration::from_mins(10);
