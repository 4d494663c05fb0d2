//! The modern era. Every request is self-contained. If the server needs input from the client, it answers a
//! request with an interim result. This result contains elicitation, sampling or roots requests. The comments
//! of this module call them questions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use thruway_client::ClientError;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::Id;
use thruway_mcp::modern::{RequestOptions, RequestWriter, ResultType, Round, append_headers, result_type};
use thruway_mcp::schema::{DiscoverResult, InputRequiredResult, RequestParams, methods};
use thruway_message::FieldLinesBuf;
use tokio::sync::OnceCell;

use super::super::binding::{Outgoing, Purpose};
use super::super::cache;
use super::super::call_trace::append_meta_fields;
use super::super::conversation::{Conversation, Waiter};
use super::super::deadline::RequestTimeouts;
use super::super::error::McpClientError;
use super::super::reading::{Answer, Read, Wanted};
use super::negotiated::{Call, Modern, version_line};

impl Modern {
    pub(crate) fn new(conversation: &Conversation, revision: Revision) -> Result<Self, McpClientError> {
        let options = &conversation.options;
        let writer = RequestWriter::new(revision, &options.capabilities, &options.client_info)
            .map_err(|_| McpClientError::ArgumentsInvalid)?;
        let field_lines = version_line(revision)?;
        Ok(Self { revision, field_lines, writer, discovered: OnceCell::new() })
    }

    /// Sends a request. After each round of questions, sends the request again with the answers, until the
    /// server returns the final result.
    pub(super) async fn perform<R: Wanted, P: Serialize>(
        &self,
        conversation: &Arc<Conversation>,
        call: &Call<'_, P>,
    ) -> Result<Read<R>, McpClientError> {
        let key =
            if conversation.options.keeps_results { cache::key(call.method, &call.params) } else { None };
        if let Some(kept) = key.as_ref().and_then(|key| conversation.cache.find(key)) {
            return Ok(Read::Raw(kept));
        }
        let knows_tasks = conversation.options.capabilities.has_tasks();
        let mut round = Round::default();
        for _ in 0..=conversation.options.rounds_max {
            let answer = match self.exchange(conversation, call, &round).await? {
                Read::Raw(answer) => answer,
                complete @ Read::Complete(_) => return Ok(complete),
            };
            match result_type(&answer) {
                Ok(ResultType::Complete) => {
                    // If the server has asked questions, the result depends on the answers, so the client
                    // does not cache the result.
                    if let Some(key) = key.filter(|_| round == Round::default()) {
                        conversation.cache.keep(key, &answer);
                    }
                    return Ok(Read::Raw(answer));
                }
                // Only tool calls become tasks, and only if the client supports tasks.
                Ok(ResultType::Task) if knows_tasks && call.method == methods::TOOLS_CALL => {
                    return Ok(Read::Raw(answer));
                }
                Ok(ResultType::InputRequired) if may_ask(call.method) => {
                    round = Box::pin(self::answer(conversation, &answer)).await?;
                }
                _ => {
                    return Err(McpClientError::result_invalid(&"the `resultType` is not allowed here"));
                }
            }
        }
        Err(McpClientError::TooManyRounds)
    }

    async fn exchange<R: Wanted, P: Serialize>(
        &self,
        conversation: &Arc<Conversation>,
        call: &Call<'_, P>,
        round: &Round,
    ) -> Result<Read<R>, McpClientError> {
        let id = conversation.next_id();
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        let options = RequestOptions {
            wants_progress: call.progress.is_some(),
            log_level: conversation.log_level(),
            meta: call.meta,
        };
        self.writer
            .write(&mut bytes, &Id::Integer(id), call.method, &call.params, options, round)
            .map_err(|_| McpClientError::ArgumentsInvalid)?;
        let mut outgoing = self.outgoing(bytes, call.method, call.name, &call.mirrored)?;
        append_meta_fields(&mut outgoing.field_lines, call.meta);
        let waiter = Waiter {
            request_timeouts: call.request_timeouts,
            progress: call.progress.clone(),
            queue: call.queue.clone(),
            requester: None,
            is_forwarded: false,
            // Over HTTP, closing the response cancels the request without a message. The client does not
            // cancel `server/discover`, because a legacy server does not know this method.
            cancels: conversation.binding.has_common_stream() && call.method != methods::SERVER_DISCOVER,
        };
        Ok(conversation.exchange(id, outgoing, waiter).await?.answer)
    }

    /// Creates the outgoing message for a serialized request. `mirrored` contains the headers that repeat
    /// arguments of the request.
    pub(super) fn outgoing(
        &self,
        bytes: Vec<u8>,
        method: &str,
        name: Option<&str>,
        mirrored: &FieldLinesBuf,
    ) -> Result<Outgoing, McpClientError> {
        let mut field_lines = FieldLinesBuf::new();
        field_lines.append_lines(&self.field_lines);
        append_headers(&mut field_lines, method, name).map_err(ClientError::FieldInvalid)?;
        field_lines.append_lines(mirrored);
        Ok(Outgoing { bytes, field_lines, purpose: Purpose::of_method(method), ..Outgoing::default() })
    }

    /// Returns the name, version and capabilities of the server. Asks the server at the first call and
    /// stores the answer.
    pub(super) async fn discover(
        &self,
        conversation: &Arc<Conversation>,
        request_timeouts: RequestTimeouts,
    ) -> Result<&DiscoverResult, McpClientError> {
        let ask = || async {
            let call = Call::new(methods::SERVER_DISCOVER, RequestParams::default(), request_timeouts);
            let answer = self.perform(conversation, &call).await?.into_raw();
            serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))
        };
        self.discovered.get_or_try_init(ask).await
    }
}

/// `true` if the server may answer a request of this method with elicitation, sampling or roots requests.
pub fn may_ask(method: &str) -> bool {
    matches!(method, methods::TOOLS_CALL | methods::PROMPTS_GET | methods::RESOURCES_READ)
}

/// Answers the questions in an interim result of the server. Returns the data for the next round.
async fn answer(conversation: &Conversation, questions: &Answer) -> Result<Round, McpClientError> {
    let questions: InputRequiredResult =
        serde_json::from_str(questions.get()).map_err(|error| McpClientError::result_invalid(&error))?;
    if questions.input_requests.is_none() && questions.request_state.is_none() {
        return Err(McpClientError::result_invalid(
            &"the result requests input, but contains no elicitation, sampling or roots request",
        ));
    }
    let input_responses = match questions.input_requests {
        None => None,
        Some(requests) => {
            let mut responses = BTreeMap::new();
            for (key, request) in requests {
                let answered = conversation.incoming.handlers.answer(request).await;
                responses.insert(key, answered.map_err(McpClientError::InputRequestFailed)?);
            }
            Some(responses)
        }
    };
    Ok(Round { input_responses, request_state: questions.request_state })
}

/// Initial buffer capacity of a request, in bytes.
const REQUEST_BYTES: usize = 512;
