//! The response to a relayed call, while it passes by.

use std::borrow::Cow;
use std::fmt;

use thruway_mcp::federated::{CallOutcome, OutcomeScan};
use thruway_mcp_server::backend::Share;

use super::audit::AuditedCall;
use super::limits::CallPermits;
use super::member_answers::MemberAnswers;

/// Reads the response of a relayed call while a program sends it to the client. Signs the `requestState` in the
/// response for the caller. At the end of the body, or when this value is dropped, the gateway counts the call
/// and records the audit event. If the body is incomplete and contains no response message, the call counts as canceled.
pub struct RelayedResponse {
    scan: OutcomeScan,
    answers: MemberAnswers,
    /// The body of the request for the member. The signature covers its parameters.
    request: Vec<u8>,
    state: ArrivingState,
    audited: Option<AuditedCall>,
    _held: HeldLimits,
}

/// Counts a call toward the limits of its caller until this value is dropped.
pub(super) struct HeldLimits {
    _permits: CallPermits,
    /// The size of the request, if it counts toward `in_flight_bytes_max`.
    _bytes: Option<Share>,
}

/// The `requestState` that is arriving.
enum ArrivingState {
    /// The first bytes of the state.
    Kept(Vec<u8>),
    /// All bytes pass unsigned, because the state is too long or not the first one of the response. A signature costs
    /// time, so a member must not get any number of them.
    Unsigned,
}

impl HeldLimits {
    pub(super) const fn new(permits: CallPermits, bytes: Option<Share>) -> Self {
        Self { _permits: permits, _bytes: bytes }
    }
}

impl RelayedResponse {
    pub(super) fn new(
        is_event_stream: bool,
        answers: MemberAnswers,
        request: Vec<u8>,
        audited: AuditedCall,
        held: HeldLimits,
    ) -> Self {
        let scan = if is_event_stream { OutcomeScan::of_events() } else { OutcomeScan::of_json() };
        let state = ArrivingState::Kept(Vec::new());
        Self { scan, answers, request, state, audited: Some(audited), _held: held }
    }

    /// Reads the next bytes of the response body. Returns the bytes for the client. The result is empty while a
    /// `requestState` is incomplete, because the gateway signs it as a whole.
    pub fn read<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let (mut output, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let was_in_state = self.scan.is_in_state();
            let (part, after) = rest.split_at(self.scan.read_to_state(rest));
            if was_in_state {
                self.read_state(part, &mut output);
            } else if part.len() == bytes.len() {
                return Cow::Borrowed(bytes);
            } else {
                output.extend_from_slice(part);
            }
            rest = after;
        }
        Cow::Owned(output)
    }

    /// Reads bytes of a `requestState`. Appends the state to `output` when it is complete.
    fn read_state(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        match &mut self.state {
            ArrivingState::Kept(kept) if kept.len() + bytes.len() > STATE_BYTES_MAX => {
                output.append(kept);
                output.extend_from_slice(bytes);
                self.state = ArrivingState::Unsigned;
            }
            ArrivingState::Kept(kept) => kept.extend_from_slice(bytes),
            ArrivingState::Unsigned => output.extend_from_slice(bytes),
        }
        if self.scan.is_in_state() {
            return;
        }
        let state = std::mem::replace(&mut self.state, ArrivingState::Unsigned);
        if let ArrivingState::Kept(state) = state {
            match self.signed(&state) {
                Some(signed) => output.extend_from_slice(signed.as_bytes()),
                None => output.extend_from_slice(&state),
            }
        }
    }

    /// Signs `state`, the end of a JSON string without its first quotation mark. Returns text of the same form, or
    /// `None` if `state` is invalid.
    fn signed(&self, state: &[u8]) -> Option<String> {
        let state: String = serde_json::from_slice(&[b"\"", state].concat()).ok()?;
        // A signed state contains no character that needs an escape sequence.
        Some(format!("{}\"", self.answers.signed(state, &self.request)?))
    }

    /// Notes that the response body is complete, and records the outcome of the call. Without a response message
    /// in the body, the call has failed.
    pub fn end(&mut self) {
        if let Some(audited) = self.audited.take() {
            audited.finish_relayed(Some(self.scan.outcome().unwrap_or((CallOutcome::Error(None), 0))));
        }
    }
}

impl Drop for RelayedResponse {
    fn drop(&mut self) {
        if let Some(audited) = self.audited.take() {
            audited.finish_relayed(self.scan.outcome());
        }
    }
}

impl fmt::Debug for RelayedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedResponse").field("scan", &self.scan).finish_non_exhaustive()
    }
}

/// Maximum length of a `requestState` that the gateway signs while a response passes by, in bytes. The endpoint
/// refuses longer states in later requests.
const STATE_BYTES_MAX: usize = 256 << 10;
