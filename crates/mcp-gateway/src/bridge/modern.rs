//! Forwards requests of modern clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Id, write_error, write_result};
use thruway_mcp::modern::{self, ResultType};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{LoggingLevel, RequestId, SubscriptionFilter, methods};
use thruway_mcp::{Era, Revision, dual_era};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, ReceivedParamHeaders, may_ask};
use thruway_mcp_server::backend::{
    Accepted, BoundRequest, Caller, Exchange, Holder, Listening, LogInbox, ModernRequest, Reply, ServerCore,
    Share, StateKey, Status, WantedNotifications, require_tasks,
};

use super::answer::{self, AnswerRevisions};
use super::bridge_core::BridgeCore;
use super::caller_bound::{self, CallerBound};
use super::credentials::CallerCredential;
use super::messages::forwarded_call;
use super::ongoing::{MessageSink, ModernRequester, OngoingCall, Step};
use super::server_pool::{PoolKey, ReservedServer};
use super::suspended::CallInFlight;
use super::tasks;
use super::upstream::{Upstream, Watch};
use super::upstreams::accepts_questions;

/// Returns a copy of the `Mcp-Param-*` headers of a tool call over HTTP.
pub(crate) fn param_headers(incoming: &ModernRequest<'_>) -> Option<ReceivedParamHeaders> {
    incoming.headers.filter(|_| incoming.request.method == methods::TOOLS_CALL).map(ReceivedParamHeaders::of)
}

/// Forwards a request to the server. Ignores the headers in `incoming`, and uses `param_headers` instead.
pub(crate) fn handle_request(
    bridge: &Arc<BridgeCore>,
    incoming: &ModernRequest<'_>,
    param_headers: Option<ReceivedParamHeaders>,
    output: &mut Vec<u8>,
) -> Reply {
    let ModernRequest { core, request, params, caller, .. } = *incoming;
    let has_request = dual_era::has_request(Era::Modern, &request.method);
    if tasks::is_about_tasks(&request.method) && (bridge.era() == Era::Legacy || !has_request) {
        return Reply::error(output, &request.id, &tasks::no_method());
    }
    if !has_request {
        return Reply::error(output, &request.id, &answer::no_method());
    }
    if caller_bound::is_about_tasks(&request.method)
        && let Err(error) = require_tasks(params)
    {
        // Check the client's capabilities before the signature of the task id. A client without support for
        // tasks then gets the same error as from the server.
        return Reply::error(output, &request.id, &error);
    }
    let bytes = match core.hold_bytes_of(caller, request, params) {
        Ok(bytes) => bytes.map(Arc::new),
        Err(error) => return Reply::unavailable(output, &request.id, &error),
    };
    let credential = match bridge.credential_of(caller) {
        Ok(credential) => credential,
        Err(error) => return Reply::error(output, &request.id, &bridge.error_of(error)),
    };
    let forwarding = Forwarding {
        core: core.clone(),
        bridge: bridge.clone(),
        id: request.id.to_owned(),
        holder: caller.holder(),
        credential: credential.clone(),
        bytes,
        _call: bridge.calls.begin(),
    };
    let (sink, messages) = MessageSink::of(params, &bridge.dropped);
    let capabilities = match capabilities_for_questions(bridge, params) {
        Ok(capabilities) => capabilities,
        Err(error) => return Reply::error(output, &request.id, &error),
    };
    let mut forwarded_call = forwarded_call(request, params);
    forwarded_call.param_headers = param_headers;
    let Some(capabilities) = capabilities else {
        let bound = CallerBound::new(bridge, core.state_key(), caller, &request.method, params);
        let answer = forwarding.plain(forwarded_call, sink, bound);
        return Reply::Later(Exchange::new(answer, messages));
    };
    let pool_key = pool_key(caller, capabilities, credential);
    if !may_ask(&request.method) {
        let answer = forwarding.without_questions(pool_key, forwarded_call, sink);
        return Reply::Later(Exchange::new(answer, messages));
    }
    let bound = BoundRequest::new(caller, &request.method, params);
    match &params.request_state {
        None => {
            let answer = forwarding.asking(pool_key, forwarded_call, sink, bound);
            Reply::Later(Exchange::new(answer, messages))
        }
        Some(state) => match resume(bridge, state, &bound, params, sink) {
            Ok(ongoing) => {
                let answer = forwarding.drive_on(ongoing, forwarded_call, bound);
                Reply::Later(Exchange::new(answer, messages))
            }
            Err(error) => Reply::error(output, &request.id, &error),
        },
    }
}

/// Returns the client's capabilities as JSON, if the server is legacy and the client can answer questions.
/// Such a client needs a dedicated server, because some servers offer more tools to clients with these
/// capabilities.
fn capabilities_for_questions<'p>(
    bridge: &BridgeCore,
    params: &Params<'p>,
) -> Result<Option<&'p str>, Error> {
    if bridge.era() == Era::Modern { Ok(None) } else { question_capabilities(params) }
}

/// Returns the client's capabilities as JSON, if the client can answer questions.
fn question_capabilities<'p>(params: &Params<'p>) -> Result<Option<&'p str>, Error> {
    let capabilities = modern::client_capabilities(&params.meta)?;
    let raw = params.meta.client_capabilities.filter(|_| accepts_questions(&capabilities));
    Ok(raw.map(RawValue::get))
}

fn pool_key(caller: &Caller, capabilities: &str, credential: Option<Arc<CallerCredential>>) -> PoolKey {
    let owner = caller.principal().map(Into::into);
    PoolKey { owner, capabilities: capabilities.into(), credential }
}

fn resume(
    bridge: &BridgeCore,
    state: &str,
    bound: &BoundRequest,
    params: &Params<'_>,
    sink: MessageSink,
) -> Result<OngoingCall, Error> {
    let mut ongoing = bridge.suspended.take(state, &bound.binding())?;
    ongoing.resume(params, sink)?;
    Ok(ongoing)
}

/// A request that the bridge is forwarding.
struct Forwarding {
    core: Arc<ServerCore>,
    bridge: Arc<BridgeCore>,
    id: RequestId,
    /// The caller of the request, for per-caller limits.
    holder: Holder,
    /// The credential of the caller, if each caller has its own.
    credential: Option<Arc<CallerCredential>>,
    /// Counts the request's parameters toward `in_flight_bytes_max`, until the call ends.
    bytes: Option<Arc<Share>>,
    _call: CallInFlight,
}

impl Forwarding {
    /// Forwards the request to the shared server. If a modern server asks questions in its answer, the client
    /// gets these questions unchanged. The bridge changes only the task id and the `requestState`: it signs
    /// both.
    async fn plain(
        self,
        mut forwarded_call: ForwardedCall,
        sink: MessageSink,
        bound: CallerBound,
    ) -> (Vec<u8>, Status) {
        let log_level = self.log_level(&sink);
        if !sink.wants_no_messages() {
            ModernRequester::new(self.next_id(), sink).attach_to(&mut forwarded_call);
        }
        let outcome = self.forward_bound(&mut forwarded_call, log_level, &bound).await;
        self.write(&forwarded_call.method, outcome)
    }

    async fn forward_bound(
        &self,
        forwarded_call: &mut ForwardedCall,
        log_level: Option<LoggingLevel>,
        bound: &CallerBound,
    ) -> Result<Answer, McpClientError> {
        let upstream = self.bridge.era_server.upstreams.shared(self.credential.as_ref()).await?;
        if let Some(level) = log_level {
            upstream.log_from(level).await;
        }
        if self.bridge.era() == Era::Legacy {
            return upstream.client.forward(forwarded_call).await;
        }
        let process_id = upstream.process_id();
        bound.open(forwarded_call, &process_id)?;
        let answer = upstream.client.forward(forwarded_call).await?;
        if let Some(member) = &self.bridge.member {
            let server = (&*upstream, self.bridge.era_server.revision);
            member.report_task_in(&answer, forwarded_call, &self.holder, server);
        }
        bound.seal(answer, forwarded_call, &process_id, &upstream)
    }

    /// Forwards the request to a dedicated server, which knows the client's capabilities. Rejects questions
    /// of the server, because the method of this request does not permit questions.
    async fn without_questions(
        self,
        pool_key: PoolKey,
        mut forwarded_call: ForwardedCall,
        sink: MessageSink,
    ) -> (Vec<u8>, Status) {
        let log_level = self.log_level(&sink);
        ModernRequester::new(self.next_id(), sink).attach_to(&mut forwarded_call);
        let outcome = match self.reserve(pool_key, log_level).await {
            Ok(server) => server.forward(&forwarded_call).await,
            Err(error) => Err(error),
        };
        self.write(&forwarded_call.method, outcome)
    }

    /// Forwards the request to a dedicated server. This server may ask questions.
    async fn asking(
        self,
        pool_key: PoolKey,
        forwarded_call: ForwardedCall,
        sink: MessageSink,
        bound: BoundRequest,
    ) -> (Vec<u8>, Status) {
        match self.reserve(pool_key, self.log_level(&sink)).await {
            Ok(server) => {
                let ongoing =
                    OngoingCall::begin(self.next_id(), server, forwarded_call, sink, self.bytes.clone());
                self.drive(ongoing, bound).await
            }
            Err(error) => self.write(bound.method(), Err(error)),
        }
    }

    /// Continues a call after the client has answered questions. Cancels the call if the `Mcp-Param-*`
    /// headers of the client's new request contradict the tool arguments.
    async fn drive_on(
        self,
        ongoing: OngoingCall,
        forwarded_call: ForwardedCall,
        bound: BoundRequest,
    ) -> (Vec<u8>, Status) {
        if forwarded_call.param_headers.is_none() {
            return self.drive(ongoing, bound).await;
        }
        let checked = match self.bridge.era_server.upstreams.shared(self.credential.as_ref()).await {
            Ok(upstream) => upstream.client.check_param_headers(&forwarded_call).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) => self.drive(ongoing, bound).await,
            Err(error) => self.write(bound.method(), Err(error)),
        }
    }

    /// Waits until the server answers the call or asks questions. Returns a response for the client with the
    /// answer or with the questions.
    async fn drive(self, mut ongoing: OngoingCall, bound: BoundRequest) -> (Vec<u8>, Status) {
        match ongoing.next().await {
            Step::Done(outcome) => self.write(bound.method(), outcome),
            Step::InputRequired => {
                let mut output = Vec::new();
                if let Err(error) = self.ask(&mut output, ongoing, &bound) {
                    write_error(&mut output, Some(&Id::from(&self.id)), &error);
                }
                (output, Status::Ok)
            }
        }
    }

    fn ask(&self, output: &mut Vec<u8>, ongoing: OngoingCall, bound: &BoundRequest) -> Result<(), Error> {
        ongoing.suspend();
        let questions = serde_json::to_value(ongoing.questions()).map_err(|_| {
            Error::internal("cannot write the server's elicitation, sampling or roots requests as JSON")
        })?;
        let state = self.bridge.suspended.put(ongoing, bound.binding(), &self.holder)?;
        let result = json!({"inputRequests": questions, "requestState": state});
        write_result(output, &Id::from(&self.id), |output| {
            self.core.results().write(output, ResultType::InputRequired, None, &result, None)
        });
        Ok(())
    }

    fn write(&self, method: &str, outcome: Result<Answer, McpClientError>) -> (Vec<u8>, Status) {
        let revisions = AnswerRevisions { client: Revision::LATEST, server: self.bridge.era_server.revision };
        self.bridge.note_outcome(&outcome);
        let outcome = self.bridge.with_public_uris(method, outcome);
        let length = outcome.as_ref().map_or(0, |answer| answer.get().len());
        let mut output = Vec::with_capacity(length + ENVELOPE_BYTES);
        let id = Id::from(&self.id);
        let status = answer::write(
            &mut output,
            &id,
            self.bridge.member_name(),
            revisions,
            method,
            self.core.results(),
            outcome,
        );
        (output, status)
    }

    /// Reserves a dedicated server for one call. If `log_level` is set, requests log messages of this
    /// severity and above.
    async fn reserve(
        &self,
        pool_key: PoolKey,
        log_level: Option<LoggingLevel>,
    ) -> Result<ReservedServer, McpClientError> {
        let server = self.bridge.era_server.upstreams.reserve(pool_key, &self.holder).await?;
        if let Some(level) = log_level {
            server.log_from(level).await;
        }
        Ok(server)
    }

    /// Returns the log level that the bridge must set at a legacy server before the call. Returns `None` for
    /// a modern server, because modern requests contain the level.
    fn log_level(&self, sink: &MessageSink) -> Option<LoggingLevel> {
        let has_legacy_logging =
            self.bridge.era() == Era::Legacy && self.bridge.era_server.capabilities.logging.is_some();
        sink.log_level().filter(|_| has_legacy_logging)
    }

    fn next_id(&self) -> u64 {
        self.bridge.era_server.upstreams.next_id()
    }
}

/// A client that opens a subscription.
pub(crate) struct Subscriber {
    caller: Caller,
    /// The client's capabilities as JSON, if the client can answer questions. Only legacy servers need them.
    capabilities: Option<String>,
    /// The lowest severity of the log messages that the client wants outside of calls.
    log_level: Option<LoggingLevel>,
    /// The queue for these log messages.
    logs: Arc<LogInbox>,
}

impl Subscriber {
    /// Returns the client that sent `incoming`. Reads the client's capabilities only if `has_legacy_server` is
    /// `true`.
    ///
    /// # Errors
    /// The capabilities in the request are invalid.
    pub(crate) fn of(incoming: &ModernRequest<'_>, has_legacy_server: bool) -> Result<Self, Error> {
        let params = incoming.params;
        let capabilities = if has_legacy_server { question_capabilities(params)? } else { None };
        Ok(Self {
            caller: incoming.caller.clone(),
            capabilities: capabilities.map(str::to_owned),
            log_level: params.meta.log_level.as_deref().and_then(|level| level.parse().ok()),
            logs: Arc::default(),
        })
    }

    /// Returns the queue for log messages that belong to no call, if the client wants such messages.
    pub(crate) fn logs(&self) -> Option<Arc<LogInbox>> {
        self.log_level.map(|_| self.logs.clone())
    }
}

/// Starts a subscription at a dedicated server or at the shared server (see
/// `BridgeOptions::shares_subscriptions`).
///
/// # Errors
/// The capabilities in the request are invalid.
pub(super) fn listen(
    bridge: &Arc<BridgeCore>,
    incoming: &ModernRequest<'_>,
    wanted: WantedNotifications,
) -> Result<Listening, Error> {
    let subscriber = Subscriber::of(incoming, bridge.era() == Era::Legacy)?;
    let bridge = bridge.clone();
    Ok(Listening::Later(Box::pin(async move { bridge.subscribe(&subscriber, wanted.filter).await })))
}

impl BridgeCore {
    /// Returns `true` if this server has already begun to handle the request: `params` contains the `requestState`
    /// that the caller received together with the server's questions. `params` contains the parameters for the
    /// server.
    pub(crate) fn has_begun(
        &self,
        key: &StateKey,
        caller: &Caller,
        method: &str,
        params: &Params<'_>,
    ) -> bool {
        let Some(state) = &params.request_state else { return false };
        let binding = |method: &str| BoundRequest::new(caller, method, params).binding();
        // The two forms of a `requestState`: of a call that waits at the bridge, and of a modern server.
        self.suspended.contains(state, &binding(method))
            || key.open(state, &binding(&format!("{}{method}", self.task_prefix()))).is_ok()
    }

    /// Subscribes to the notifications in `filter`.
    ///
    /// # Errors
    /// All dedicated servers are in use, or the server is unreachable.
    pub(crate) async fn subscribe(
        &self,
        subscriber: &Subscriber,
        mut filter: SubscriptionFilter,
    ) -> Result<Accepted, Error> {
        let wants_lists =
            [filter.tools_list_changed, filter.prompts_list_changed, filter.resources_list_changed];
        if wants_lists.contains(&Some(true)) {
            self.watch_lists().await;
        }
        let mut watches = Vec::new();
        let mut refused_uris = Vec::new();
        if !filter.resource_subscriptions.is_empty() {
            let upstream = match upstream_of_subscription(self, subscriber).await {
                Err(error) if error.is_of_capacity() => return Err(answer::error_of(error)),
                upstream => upstream.ok(),
            };
            let uris: BTreeSet<_> = std::mem::take(&mut filter.resource_subscriptions).into_iter().collect();
            for uri in uris {
                match watch(upstream.as_ref(), &uri, &subscriber.caller.holder()).await {
                    Some(watch) => {
                        watches.push(watch);
                        filter.resource_subscriptions.push(uri);
                    }
                    None => refused_uris.push(uri),
                }
            }
        }
        let upstream = match log_level(self, subscriber) {
            Some(level) => Some(watch_logs(self, subscriber, level).await?),
            None => None,
        };
        let logs = upstream.as_ref().map(|_| subscriber.logs.clone());
        let wanted = WantedNotifications { filter, ..WantedNotifications::default() };
        Ok(Accepted {
            wanted,
            refused_uris,
            logs,
            kept: Some(Box::new((watches, upstream))),
            ..Accepted::default()
        })
    }
}

/// Returns the server for a subscription: either a dedicated server or the shared server.
async fn upstream_of_subscription(
    bridge: &BridgeCore,
    subscriber: &Subscriber,
) -> Result<Arc<Upstream>, McpClientError> {
    let upstreams = &bridge.era_server.upstreams;
    let Subscriber { caller, capabilities, .. } = subscriber;
    let needs_own = bridge.era() == Era::Legacy && !bridge.shares_subscriptions;
    let credential = bridge.credential_of(caller)?;
    match capabilities.as_deref().filter(|_| needs_own) {
        None => upstreams.shared(credential.as_ref()).await,
        Some(capabilities) => {
            upstreams.idle_or_new(pool_key(caller, capabilities, credential), &caller.holder()).await
        }
    }
}

/// Returns the lowest severity of the log messages that a subscription requests. Returns `None` for a modern
/// server: in the modern era, every log message belongs to a request (MCP revision 2026-07-28, section
/// Logging).
fn log_level(bridge: &BridgeCore, subscriber: &Subscriber) -> Option<LoggingLevel> {
    let has_logs = bridge.era() == Era::Legacy && bridge.era_server.capabilities.logging.is_some();
    subscriber.log_level.filter(|_| has_logs)
}

/// Subscribes to log messages of the severity `level` and above that belong to no call. Returns the connection
/// to the server. The subscription must keep this connection, because the connection closes when its last
/// reference is dropped.
///
/// # Errors
/// All dedicated servers are in use, or the server is unreachable.
async fn watch_logs(
    bridge: &BridgeCore,
    subscriber: &Subscriber,
    level: LoggingLevel,
) -> Result<Arc<Upstream>, Error> {
    let upstream = upstream_of_subscription(bridge, subscriber).await.map_err(answer::error_of)?;
    upstream.log_listeners.subscribe(level, &subscriber.logs);
    upstream.log_from(level).await;
    Ok(upstream)
}

async fn watch(upstream: Option<&Arc<Upstream>>, uri: &str, holder: &Holder) -> Option<Watch> {
    upstream?.watch(uri, holder).await.ok()
}

/// Estimated size of a response without its result, in bytes.
const ENVELOPE_BYTES: usize = 512;
