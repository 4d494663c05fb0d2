//! Forwards requests of legacy clients.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, ErrorCode, Id, Request, write_error};
use thruway_mcp::members::{append_line, append_member};
use thruway_mcp::modern::{ResultType, result_type};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{LoggingLevel, RequestId, SetLevelRequestParams, methods};
use thruway_mcp::{Era, Revision, dual_era};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, Sender, empty_object, reporting};
use thruway_mcp_server::backend::{
    Exchange, Holder, InterimMessage, LegacyRequest, Reply, ServerCore, Session, Status,
};
use tokio::sync::mpsc;

use super::answer::{self, AnswerRevisions};
use super::bridge_core::BridgeCore;
use super::credentials::CallerCredential;
use super::era_server::EraServer;
use super::member_sessions::BridgeSession;
use super::messages::{self, forwarded_call};
use super::outbox::Outbox;
use super::session_requester::SessionRequester;
use super::suspended::CallInFlight;
use super::tasks::{self, Reserved, TaskIdMap, TaskMessageSink, TaskOwner, Tasks};
use super::upstream::Upstream;

/// Forwards a request to the server. Returns `None` if the bridge must answer the request itself.
pub(crate) fn handle_request(
    bridge: &Arc<BridgeCore>,
    incoming: &LegacyRequest<'_>,
    output: &mut Vec<u8>,
) -> Option<Reply> {
    let LegacyRequest { session, request, params, .. } = *incoming;
    let state = session.and_then(|session| bridge.session_of(session));
    let forwarding = Forwarding::new(bridge, incoming);
    let era_server = forwarding.era_server.clone();
    if tasks::is_about_tasks(&request.method) && state.and_then(BridgeSession::owner).is_none() {
        return Some(refuse(output, request, &tasks::no_method()));
    }
    if !dual_era::has_request(Era::Legacy, &request.method) {
        return Some(refuse(output, request, &answer::no_method()));
    }
    match &*request.method {
        methods::PING => return None,
        methods::LOGGING_SET_LEVEL => {
            let session = note_level(session, request)?;
            if era_server.era() == Era::Modern {
                // Each request for a modern server contains the log level, so the bridge need not send the
                // level now.
                return None;
            }
            return Some(Reply::Later(Exchange::new(forwarding.log(session), None)));
        }
        methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE => {
            let subscribes = request.method == methods::RESOURCES_SUBSCRIBE;
            let uri = params.uri.as_deref().unwrap_or_default().to_owned();
            return Some(Reply::Later(Exchange::new(forwarding.watch(subscribes, uri), None)));
        }
        _ => {}
    }
    let mut forwarded_call = forwarded_call(request, params);
    forwarded_call.sender = (era_server.era() == Era::Modern).then(|| sender(session));
    let session_client = session.map(|session| SessionClient::new(session, bridge, params));
    let (session_client, messages) = session_client.unzip();
    let exchange = match session_client {
        Some(session_client) if tasks::is_about_tasks(&request.method) => {
            let id = params.task_id.as_deref().map(Into::into);
            Exchange::new(forwarding.forward_about_tasks(forwarded_call, session_client, id), messages)
        }
        Some(session_client) if session_client.owner().is_some() && is_to_be_task(request, params) => {
            forwarded_call.params = request.params.map_or_else(empty_object, ToOwned::to_owned);
            Exchange::new(forwarding.forward_as_task(forwarded_call, session_client), messages)
        }
        session_client => Exchange::new(forwarding.forward(forwarded_call, session_client), messages),
    };
    Some(Reply::Later(exchange))
}

/// Appends an error to `output`. Over HTTP, the status is 200, because a legacy client treats 404 as the end
/// of its session (MCP revision 2025-11-25, section Session Management).
fn refuse(output: &mut Vec<u8>, request: &Request<'_>, error: &Error) -> Reply {
    write_error(output, Some(&request.id), error);
    Reply::Now(Status::Ok)
}

fn is_to_be_task(request: &Request<'_>, params: &Params<'_>) -> bool {
    request.method == methods::TOOLS_CALL && params.task.is_some()
}

/// Stores the requested log level in the session, and returns the session. Returns `None` if the request
/// belongs to no session or contains no valid level.
pub(crate) fn note_level(session: Option<&Arc<Session>>, request: &Request<'_>) -> Option<Arc<Session>> {
    let SetLevelRequestParams { level, .. } = params::parse(request.params).ok()?;
    let session = session?;
    session.set_log_level(level);
    Some(session.clone())
}

/// Returns the description of the client that the bridge adds to each request for a modern server. The client
/// sent this data with `initialize` and `logging/setLevel`. Without a session, describes the bridge instead.
fn sender(session: Option<&Arc<Session>>) -> Sender {
    match session {
        Some(session) => Sender {
            capabilities: session.capabilities_json().into(),
            info: session.info_json().into(),
            log_level: session.log_level().map(LoggingLevel::as_str),
        },
        None => Sender {
            capabilities: "{}".into(),
            info: concat!(r#"{"name":"thruway","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#).into(),
            log_level: None,
        },
    }
}

/// The client of a session, during one of its requests. The bridge sends messages to the client on the
/// response stream of this request.
pub(super) struct SessionClient {
    session: Arc<Session>,
    bridge: Arc<BridgeCore>,
    outbox: Outbox,
    progress_token: Option<RequestId>,
    /// Maximum time to wait for the client's answer to a question of the server.
    wait: Duration,
}

impl SessionClient {
    pub(super) fn new(
        session: &Arc<Session>,
        bridge: &Arc<BridgeCore>,
        params: &Params<'_>,
    ) -> (Self, mpsc::Receiver<InterimMessage>) {
        let (outbox, messages) = Outbox::new(&bridge.dropped);
        let progress_token = params.meta.progress_token.as_ref().map(Id::to_owned);
        let wait = bridge.suspended.wait();
        let (session, bridge) = (session.clone(), bridge.clone());
        (Self { session, bridge, outbox, progress_token, wait }, messages)
    }

    /// Returns the caller to whose limits the session counts.
    pub(super) fn holder(&self) -> &Holder {
        self.session.holder()
    }

    /// Returns the key under which the bridge stores the tasks of this session. Returns `None` if the bridge
    /// does not forward tasks for this session.
    pub(super) fn owner(&self) -> Option<&TaskOwner> {
        self.bridge.session_of(&self.session).and_then(BridgeSession::owner)
    }

    /// Returns the sink for messages about a task, for the case that the server runs this request as a task.
    pub(super) fn task_message_sink(&self) -> TaskMessageSink {
        TaskMessageSink::new(&self.session, &self.outbox, self.progress_token.clone())
    }

    /// Makes the sink of a task send its messages on the response stream of this request.
    pub(super) fn redirect(&self, sink: &mut TaskMessageSink) {
        sink.switch_to(&self.outbox);
    }

    /// Returns the handler for the questions and messages that the server sends during this request.
    pub(super) fn requester(
        &self,
        task_ids: Option<TaskIdMap>,
        reserved: Option<Arc<Reserved>>,
    ) -> Arc<SessionRequester> {
        let (session, outbox, wait) = (self.session.clone(), self.outbox.clone(), self.wait);
        Arc::new(SessionRequester { session, outbox, wait, task_ids, reserved })
    }

    pub(super) fn attach_to(&self, forwarded_call: &mut ForwardedCall, task_ids: Option<TaskIdMap>) {
        if let Some(token) = self.progress_token.clone() {
            let outbox = self.outbox.clone();
            let report = move |params| messages::report(&outbox, &token, params);
            forwarded_call.progress = Some(reporting(Arc::new(report)));
        }
        forwarded_call.requester = Some(self.requester(task_ids, None));
    }
}

/// A request that the bridge is forwarding.
pub(super) struct Forwarding {
    core: Arc<ServerCore>,
    bridge: Arc<BridgeCore>,
    era_server: Arc<EraServer>,
    session: Option<Arc<Session>>,
    /// The credential of the caller, or the error if the caller needs a credential and has none.
    credential: Result<Option<Arc<CallerCredential>>, McpClientError>,
    revision: Revision,
    id: RequestId,
    _call: CallInFlight,
}

impl Forwarding {
    pub(super) fn new(bridge: &Arc<BridgeCore>, incoming: &LegacyRequest<'_>) -> Self {
        let LegacyRequest { core, session, revision, request, .. } = *incoming;
        let state = session.and_then(|session| bridge.session_of(session));
        let era_server = state.map_or_else(|| bridge.era_server(Era::Legacy), |state| &state.era_server);
        Self {
            core: core.clone(),
            bridge: bridge.clone(),
            era_server: era_server.clone(),
            session: session.cloned(),
            credential: bridge.credential_of(incoming.caller),
            revision,
            id: request.id.to_owned(),
            _call: bridge.calls.begin(),
        }
    }

    async fn forward(
        self,
        mut forwarded_call: ForwardedCall,
        session_client: Option<SessionClient>,
    ) -> (Vec<u8>, Status) {
        let outcome = match self.upstream().await {
            Ok(upstream) => {
                if let Some(session_client) = session_client {
                    session_client.attach_to(
                        &mut forwarded_call,
                        self.task_ids(&session_client, upstream.connection_id()),
                    );
                }
                self.exchange(&upstream, &mut forwarded_call).await
            }
            Err(error) => Err(error),
        };
        self.write(&forwarded_call.method, outcome)
    }

    pub(super) const fn bridge(&self) -> &Arc<BridgeCore> {
        &self.bridge
    }

    pub(super) fn tasks(&self) -> &Arc<Tasks> {
        &self.era_server.upstreams.tasks
    }

    /// Returns the translation between the client's task ids and the server's task ids. `connection_id`
    /// identifies the connection to the server. Returns `None` if the bridge does not forward tasks for this
    /// session.
    pub(super) fn task_ids(&self, session_client: &SessionClient, connection_id: u64) -> Option<TaskIdMap> {
        session_client.owner().map(|owner| TaskIdMap::new(self.tasks().clone(), owner.clone(), connection_id))
    }

    /// Forwards the request. If a modern server answers with questions, the bridge asks the client these
    /// questions, and repeats the request with the client's answers.
    async fn exchange(
        &self,
        upstream: &Arc<Upstream>,
        forwarded_call: &mut ForwardedCall,
    ) -> Result<Answer, McpClientError> {
        for _ in 0..=ROUNDS_MAX {
            let answer = upstream.client.forward(forwarded_call).await?;
            if self.era_server.era() == Era::Legacy {
                return Ok(answer);
            }
            match result_type(&answer) {
                Ok(ResultType::Complete) => return Ok(answer),
                Ok(ResultType::InputRequired) => {
                    forwarded_call.round = round(forwarded_call, &answer).await?;
                }
                Ok(ResultType::Task) | Err(_) => {
                    return Err(McpClientError::result_invalid(
                        &"the `resultType` is not allowed in the answer to this request",
                    ));
                }
            }
        }
        Err(McpClientError::TooManyRounds)
    }

    /// Makes the server send the log messages that `session` wants, in addition to the log messages that
    /// other sessions want.
    async fn log(self, session: Arc<Session>) -> (Vec<u8>, Status) {
        let outcome = self.bridge.log_for(&session).await;
        self.write(methods::LOGGING_SET_LEVEL, outcome.map(|()| empty_object()))
    }

    /// Subscribes to changes of a resource if `subscribes` is `true`, otherwise unsubscribes.
    async fn watch(self, subscribes: bool, uri: String) -> (Vec<u8>, Status) {
        let outcome = match (&self.session, subscribes) {
            (None, _) => Err(McpClientError::Server(Error::new(
                ErrorCode::INVALID_REQUEST,
                "cannot subscribe without a session",
            ))),
            (Some(session), false) => {
                session.subscription.remove(&self.bridge.change_of(&uri));
                if let Some(own) = self.bridge.session_of(session) {
                    own.state.watches().remove(&uri);
                }
                Ok(())
            }
            (Some(session), true) => self.subscribe(session, uri).await,
        };
        self.write(methods::RESOURCES_READ, outcome.map(|()| empty_object()))
    }

    async fn subscribe(&self, session: &Arc<Session>, uri: String) -> Result<(), McpClientError> {
        let change = self.bridge.change_of(&uri);
        if !session.subscription.add(change.clone()) {
            let error = Error::invalid_params("too many subscriptions in one session");
            return Err(McpClientError::Server(error));
        }
        let outcome = match self.upstream().await {
            Ok(upstream) => upstream.watch(&uri, session.holder()).await,
            Err(error) => Err(error),
        };
        let Some(own) = self.bridge.session_of(session) else { return outcome.map(drop) };
        let mut watches = own.state.watches();
        match outcome {
            Ok(watch) => {
                // Add the change again. Meanwhile, a concurrent request for the same resource may have failed
                // and removed the change.
                session.subscription.add(change);
                watches.insert(uri, watch);
                Ok(())
            }
            Err(error) => {
                if !watches.contains_key(&uri) {
                    session.subscription.remove(&change);
                }
                Err(error)
            }
        }
    }

    pub(super) async fn upstream(&self) -> Result<Arc<Upstream>, McpClientError> {
        let upstreams = &self.era_server.upstreams;
        let credential = self.credential.as_ref().map_err(Clone::clone)?.as_ref();
        match self.session.as_ref().and_then(|session| Some((session, self.bridge.session_of(session)?))) {
            Some((session, own)) => upstreams.of_session(session, &own.state, credential).await,
            None => upstreams.shared(credential).await,
        }
    }

    pub(super) fn write(&self, method: &str, outcome: Result<Answer, McpClientError>) -> (Vec<u8>, Status) {
        let revisions = AnswerRevisions { client: self.revision, server: self.era_server.revision };
        self.bridge.note_outcome(&outcome);
        let outcome = self.bridge.with_public_uris(method, outcome);
        let mut output = Vec::new();
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
}

/// The questions in an answer of a modern server: requests for elicitation, for sampling, or for the client's
/// roots.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Questions {
    #[serde(default)]
    input_requests: std::collections::BTreeMap<String, EmbeddedRequest>,
    request_state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct EmbeddedRequest {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// Asks the client the questions in `answer`, one after another. Returns the client's answers as JSON members
/// for the repeated request.
async fn round(forwarded_call: &ForwardedCall, answer: &Answer) -> Result<Vec<u8>, McpClientError> {
    let questions: Questions =
        serde_json::from_str(answer.get()).map_err(|error| McpClientError::result_invalid(&error))?;
    let no_requester = || {
        let reason =
            "the server sent an elicitation, sampling or roots request, but the client has no session";
        Error::new(ErrorCode::METHOD_NOT_FOUND, reason)
    };
    let mut responses = b"{".to_vec();
    for (name, question) in questions.input_requests {
        let requester = forwarded_call
            .requester
            .as_ref()
            .ok_or_else(|| McpClientError::InputRequestFailed(no_requester()))?;
        let answered = requester.ask(&question.method, question.params.as_deref()).await;
        append_member(&mut responses, &name, answered.map_err(McpClientError::InputRequestFailed)?.get());
    }
    responses.push(b'}');
    let mut round = br#""inputResponses":"#.to_vec();
    append_line(&mut round, &String::from_utf8(responses).unwrap_or_default());
    if let Some(state) = questions.request_state {
        append_member(&mut round, "requestState", state.get());
    }
    Ok(round)
}

/// Maximum number of times that a modern server may answer the same request with questions.
const ROUNDS_MAX: usize = 32;
