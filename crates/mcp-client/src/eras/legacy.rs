//! The legacy era. The client starts a session with a handshake. In the session, the server may also send
//! requests to the client.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use thruway_client::ClientError;
use thruway_mcp::json_rpc::{Id, write_notification, write_request};
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{
    DiscoverResult, InitializeRequestParams, InitializeResult, LoggingLevel, MetaObject, NotificationParams,
    SetLevelRequestParams, methods,
};
use thruway_mcp::{Era, Revision};

use super::super::binding::{Outgoing, Purpose};
use super::super::call_trace::append_meta_fields;
use super::super::conversation::{Conversation, Waiter};
use super::super::deadline::RequestTimeouts;
use super::super::error::McpClientError;
use super::super::reading::{Read, Wanted};
use super::negotiated::{Call, Legacy, Listening, version_line};

/// Request parameters with the member `_meta`.
#[derive(Serialize)]
struct WithMeta<'a, P> {
    #[serde(rename = "_meta")]
    meta: MetaObject,
    #[serde(flatten)]
    params: &'a P,
}

impl Legacy {
    /// Begins a session with the revision `requested`. The server may choose another legacy revision,
    /// unless `is_pinned` is set.
    pub(super) async fn initialize(
        conversation: &Arc<Conversation>,
        requested: Revision,
        is_pinned: bool,
    ) -> Result<Self, McpClientError> {
        let options = &conversation.options;
        let params = InitializeRequestParams {
            protocol_version: requested.as_str().to_owned(),
            capabilities: options.capabilities.clone(),
            client_info: options.client_info.clone(),
            meta: None,
        };
        let id = conversation.next_id();
        let mut bytes = Vec::new();
        write_request(&mut bytes, &Id::Integer(id), methods::INITIALIZE, &params);
        let request_timeouts = RequestTimeouts { timeout: options.timeout, timeout_max: options.timeout };
        // The specification forbids the client to cancel `initialize`.
        let waiter = Waiter {
            request_timeouts,
            progress: None,
            queue: None,
            requester: None,
            is_forwarded: false,
            cancels: false,
        };
        let outgoing = Outgoing { bytes, ..Outgoing::default() };
        let received = conversation.exchange(id, outgoing, waiter).await?;
        let answer = received.answer.into_raw();
        let result: InitializeResult =
            serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))?;
        let revision = result.protocol_version.parse().ok().filter(|revision: &Revision| {
            if is_pinned { *revision == requested } else { revision.era() == Era::Legacy }
        });
        let revision = revision.ok_or(McpClientError::UnsupportedRevision)?;
        let mut field_lines = version_line(revision)?;
        if let Some(id) = &received.session_id {
            field_lines.append("Mcp-Session-Id", id).map_err(ClientError::FieldInvalid)?;
        }
        let has_session = received.session_id.is_some();
        let has_tasks = revision == Revision::R20251125 && result.capabilities.has_calls_as_tasks();
        let legacy =
            Self { revision, result, has_session, field_lines, has_tasks, listening: Mutex::default() };
        legacy.confirm(conversation).await?;
        if let Some(level) = conversation.log_level() {
            Box::pin(legacy.log_again(conversation, level, request_timeouts)).await;
        }
        Ok(legacy)
    }

    /// Sends the log level of the previous session to the server. Ignores errors: the server then uses its
    /// default level.
    async fn log_again(
        &self,
        conversation: &Arc<Conversation>,
        level: LoggingLevel,
        request_timeouts: RequestTimeouts,
    ) {
        let params = SetLevelRequestParams { level, meta: None };
        let call = Call::new(methods::LOGGING_SET_LEVEL, params, request_timeouts);
        if self.result.capabilities.logging.is_some() {
            let _ = self.perform(conversation, &call).await.map(Read::into_raw);
        }
    }

    async fn confirm(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        let mut bytes = Vec::new();
        write_notification(&mut bytes, methods::NOTIFICATIONS_INITIALIZED, &NotificationParams::default());
        conversation.send_with(bytes, self.field_lines.clone()).await
    }

    /// Sends a request and returns its result. Elicitation, sampling and roots requests of the server arrive
    /// as separate messages, and `receiving.rs` answers them.
    pub(super) async fn perform<R: Wanted, P: Serialize>(
        &self,
        conversation: &Arc<Conversation>,
        call: &Call<'_, P>,
    ) -> Result<Read<R>, McpClientError> {
        let id = conversation.next_id();
        let mut bytes = Vec::new();
        let meta = meta(id, call);
        if meta.is_empty() {
            write_request(&mut bytes, &Id::Integer(id), call.method, &call.params);
        } else {
            let params = WithMeta { meta, params: &call.params };
            write_request(&mut bytes, &Id::Integer(id), call.method, &params);
        }
        let mut outgoing = self.outgoing(bytes, call.method);
        append_meta_fields(&mut outgoing.field_lines, call.meta);
        let waiter = Waiter {
            request_timeouts: call.request_timeouts,
            progress: call.progress.clone(),
            queue: None,
            requester: None,
            is_forwarded: false,
            cancels: true,
        };
        Ok(conversation.exchange(id, outgoing, waiter).await?.answer)
    }

    /// Creates the outgoing message for a serialized request, with the headers of this session.
    pub(super) fn outgoing(&self, bytes: Vec<u8>, method: &str) -> Outgoing {
        Outgoing {
            bytes,
            field_lines: self.field_lines.clone(),
            purpose: Purpose::of_method(method),
            is_resumable: true,
            has_session: self.has_session,
        }
    }

    /// Converts the result of the handshake to a discovery result of the modern era.
    pub(super) fn discover(&self) -> DiscoverResult {
        let mut meta = MetaObject::new();
        if let Ok(info) = serde_json::to_value(&self.result.server_info) {
            meta.insert(meta_keys::SERVER_INFO.to_owned(), info);
        }
        DiscoverResult {
            supported_versions: vec![self.result.protocol_version.clone()],
            capabilities: self.result.capabilities.clone(),
            instructions: self.result.instructions.clone(),
            meta: Some(meta),
        }
    }

    /// Opens the event stream for messages outside of responses (HTTP only), if the client has a handler or
    /// a subscription.
    pub(super) fn begin(&self, conversation: &Arc<Conversation>) {
        let handlers = &conversation.incoming.handlers;
        let is_wanted = handlers.answer.is_some()
            || handlers.notify.is_some()
            || !conversation.incoming.queues().is_empty();
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if is_wanted && listening.is_none() {
            *listening = conversation.binding.listen(conversation, self.field_lines.clone()).map(Listening);
        }
    }

    pub(super) async fn end(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        drop(self.listening.lock().unwrap_or_else(PoisonError::into_inner).take());
        if !self.has_session {
            return Ok(());
        }
        conversation.binding.end_session(self.field_lines.clone()).await
    }
}

fn meta<P>(id: i64, call: &Call<'_, P>) -> MetaObject {
    let mut meta = call.meta.cloned().unwrap_or_default();
    if call.progress.is_some() {
        meta.insert(meta_keys::PROGRESS_TOKEN.to_owned(), Value::from(id));
    }
    meta
}
