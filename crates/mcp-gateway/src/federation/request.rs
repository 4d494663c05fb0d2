//! Handles requests of clients: answers requests for lists and for log messages, and leaves all other
//! requests to the members.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use thruway_mcp::federated::ListKind;
use thruway_mcp::json_rpc::{Error, Id, Request, write_error, write_result};
use thruway_mcp::modern::ResultType;
use thruway_mcp::params::Params;
use thruway_mcp::schema::{RequestId, methods};
use thruway_mcp::traced_call::TraceContext;
use thruway_mcp::{Era, Revision, dual_era};
use thruway_mcp_client::forwarding::ReceivedParamHeaders;
use thruway_mcp_server::backend::{
    Caller, Exchange, InterimMessage, LegacyRequest, ModernRequest, Reply, ServerCore, Session, Share, Status,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::audit::{AuditedCall, AuditedRequest, CallProgress};
use super::confirm::{CallToConfirm, SessionToAsk, Unconfirmed};
use super::gateway_core::GatewayCore;
use super::limits::CallPermits;
use super::route::{Refusal, Routed, Target};
use super::search::{OwnToolCall, SearchState};
use super::search_tools;
use super::tasks::TaskListRequest;
use super::visible_members::VisibleMembers;
use crate::bridge::{
    BridgeCore, MemberSessions, handle_legacy_request, handle_modern_request, no_method, note_level,
    param_headers, retry_after,
};

/// A copy of a request. The copy lives while the gateway waits for lists or members.
pub(super) struct OwnedRequest {
    pub(super) core: Arc<ServerCore>,
    pub(super) caller: Caller,
    pub(super) id: RequestId,
    pub(super) method: Box<str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) revision: Revision,
    pub(super) client: Client,
    /// The part of the audit that depends on the handling of the request.
    pub(super) progress: Option<Arc<CallProgress>>,
    /// The trace context for the member. `None` if tracing is off.
    pub(super) trace: Option<Box<TraceContext>>,
}

/// The data of a request that differ between the eras.
pub(super) enum Client {
    Legacy {
        session: Option<Arc<Session>>,
        /// The queue for a question on the response stream of the request. `None` if the gateway asks no questions
        /// itself.
        outbox: Option<mpsc::Sender<InterimMessage>>,
    },
    Modern {
        param_headers: Option<ReceivedParamHeaders>,
        /// Counts the request toward `in_flight_bytes_max` until a member counts the request.
        bytes: Option<Share>,
    },
}

/// Handles a request of a legacy client. Returns `None` if the server must answer the request itself.
pub(super) fn handle_legacy(
    gateway: &Arc<GatewayCore>,
    incoming: &LegacyRequest<'_>,
    output: &mut Vec<u8>,
) -> Option<Reply> {
    let LegacyRequest { core, session, revision, request, params, caller } = *incoming;
    match &*request.method {
        methods::PING => return None,
        methods::LOGGING_SET_LEVEL => {
            let session = note_level(session, request)?;
            let (gateway, caller, id) = (gateway.clone(), caller.clone(), request.id.to_owned());
            let answer = async move {
                log_for(&gateway, &caller, &session).await;
                (empty_result(&id), Status::Ok)
            };
            return Some(Reply::Later(Exchange::new(answer, None)));
        }
        method if !dual_era::has_request(Era::Legacy, method) => {
            return Some(refuse_legacy(output, &request.id));
        }
        _ => {}
    }
    let client = Client::Legacy { session: session.cloned(), outbox: None };
    let audited = gateway.audit(&AuditedRequest {
        caller,
        session: session.and_then(|session| MemberSessions::number_of(session)),
        method: &request.method,
        params,
        request_bytes: bytes_of(request),
        revision,
    });
    let request = OwnedRequest::new(core, caller, request, params, revision, client);
    Some(request.handled_by(gateway, audited))
}

/// Handles a request of a modern client.
pub(super) fn handle_modern(
    gateway: &Arc<GatewayCore>,
    incoming: &ModernRequest<'_>,
    output: &mut Vec<u8>,
) -> Reply {
    let ModernRequest { core, revision, request, params, caller, .. } = *incoming;
    if !dual_era::has_request(Era::Modern, &request.method) {
        return Reply::error(output, &request.id, &no_method());
    }
    let audited = gateway.audit(&AuditedRequest {
        caller,
        session: None,
        method: &request.method,
        params,
        request_bytes: bytes_of(request),
        revision,
    });
    let bytes = match core.hold_bytes_of(caller, request, params) {
        Ok(bytes) => bytes,
        Err(error) => return Reply::unavailable(output, &request.id, &error),
    };
    let client = Client::Modern { param_headers: param_headers(incoming), bytes };
    OwnedRequest::new(core, caller, request, params, revision, client).handled_by(gateway, audited)
}

/// Appends an error for a method that legacy clients cannot use. Over HTTP, the status is 200, because a
/// legacy client treats 404 as the end of its session.
fn refuse_legacy(output: &mut Vec<u8>, id: &Id<'_>) -> Reply {
    write_error(output, Some(id), &no_method());
    Reply::Now(Status::Ok)
}

/// Returns the size of the parameters.
fn bytes_of(request: &Request<'_>) -> usize {
    request.params.map_or(0, |params| params.get().len())
}

fn empty_result(id: &RequestId) -> Vec<u8> {
    let mut output = Vec::new();
    write_result(&mut output, &Id::from(id), |output| {
        output.extend_from_slice(b"{}");
        Ok(())
    });
    output
}

impl OwnedRequest {
    fn new(
        core: &Arc<ServerCore>,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
        revision: Revision,
        client: Client,
    ) -> Self {
        Self {
            core: core.clone(),
            caller: caller.clone(),
            id: request.id.to_owned(),
            method: request.method.as_ref().into(),
            params: request.params.map(ToOwned::to_owned),
            revision,
            client,
            progress: None,
            trace: params.meta.forwarded_trace.clone(),
        }
    }

    fn handled_by(mut self, gateway: &Arc<GatewayCore>, audited: Option<AuditedCall>) -> Reply {
        let gateway = gateway.clone();
        self.progress = audited.as_ref().map(|audited| audited.progress().clone());
        let messages = self.open_outbox(&gateway);
        let call = gateway.calls.begin();
        let reply = Reply::deferred_with(messages, async move {
            let _call = call;
            if let Some(progress) = &self.progress {
                progress.begin();
            }
            match ListKind::of_method(&self.method) {
                Some(kind) => self.list(&gateway, kind).await,
                None if *self.method == *methods::TASKS_LIST => self.list_tasks(&gateway).await,
                None => match (self.own_tool(&gateway), &gateway.durable) {
                    (Some(search), _) => self.use_own_tool(&gateway, search).await,
                    (None, Some(durable)) => self.forward_durably(&gateway, durable).await,
                    (None, None) => self.forward(&gateway).await,
                },
            }
        });
        match (reply, audited) {
            (Reply::Later(exchange), Some(audited)) => {
                Reply::Later(exchange.on_answer(move |answer| audited.finish(answer)))
            }
            (reply, _) => reply,
        }
    }

    /// Opens the queue for a question to a legacy client, if this request may need a confirmation.
    fn open_outbox(&mut self, gateway: &GatewayCore) -> Option<mpsc::Receiver<InterimMessage>> {
        let Client::Legacy { outbox, .. } = &mut self.client else { return None };
        if gateway.confirmations.is_none() || *self.method != *methods::TOOLS_CALL {
            return None;
        }
        let (sender, messages) = mpsc::channel(OUTBOX_MESSAGES);
        *outbox = Some(sender);
        Some(messages)
    }

    /// Answers with a page of the merged list.
    async fn list(self, gateway: &GatewayCore, kind: ListKind) -> (Vec<u8>, Reply) {
        let access = gateway.access_of(&self.caller);
        let listing = match gateway.list(kind, self.revision, access.as_ref()).await {
            Ok(listing) => listing,
            Err(error) => return self.refused(&error.into()),
        };
        let mut output = Vec::new();
        write_result(&mut output, &Id::from(&self.id), |output| {
            let params = Params::parse(self.params.as_deref())?;
            listing.write_page(output, self.core.results(), params.cursor.as_deref())
        });
        (output, Reply::Now(Status::Ok))
    }

    /// Returns the tool search if the request calls one of its tools.
    fn own_tool<'g>(&self, gateway: &'g GatewayCore) -> Option<&'g SearchState> {
        let search = gateway.search.as_ref().filter(|_| *self.method == *methods::TOOLS_CALL)?;
        let name = Params::parse(self.params.as_deref()).ok()?.name?;
        search_tools::NAMES.contains(&&*name).then_some(search)
    }

    /// Answers a call of `find_tool`, or of `call_tool` with invalid arguments.
    async fn use_own_tool(self, gateway: &GatewayCore, search: &SearchState) -> (Vec<u8>, Reply) {
        let access = gateway.access_of(&self.caller);
        let all = match gateway.catalog.list(ListKind::Tools, self.revision, access.as_ref()).await {
            Ok(all) => all,
            Err(error) => return self.refused(&error.into()),
        };
        let mut output = Vec::new();
        write_result(&mut output, &Id::from(&self.id), |output| {
            let params = Params::parse(self.params.as_deref())?;
            let call = OwnToolCall { params: &params, revision: self.revision, access: access.as_ref() };
            call.write_result(output, self.core.results(), search, &all)
        });
        (output, Reply::Now(Status::Ok))
    }

    /// Selects the member for the request, and lets the member's bridge forward the request.
    pub(super) async fn forward(self, gateway: &GatewayCore) -> (Vec<u8>, Reply) {
        let routed = Routed {
            method: &self.method,
            params: self.params.as_deref(),
            revision: self.revision,
            caller: &self.caller,
            access: gateway.access_of(&self.caller),
            progress: self.progress.as_deref(),
        };
        let target = match gateway.route(&routed).await {
            Ok(target) => target,
            Err(refusal) => return self.refused(&refusal),
        };
        let params = match self.confirmed(gateway, &target).await {
            Ok(params) => params.or(target.params),
            Err(unconfirmed) => return self.unconfirmed(unconfirmed),
        };
        let mut output = Vec::new();
        let reply = self.handled_by_member(&target.bridge, params.as_deref(), &mut output);
        (output, holding(reply, target.permits))
    }

    /// Asks the user to confirm a call of a destructive tool. Returns the parameters for the member, if the
    /// confirmation changes them.
    async fn confirmed(
        &self,
        gateway: &GatewayCore,
        target: &Target,
    ) -> Result<Option<Box<RawValue>>, Unconfirmed> {
        if *self.method != *methods::TOOLS_CALL {
            return Ok(None);
        }
        let session = match &self.client {
            Client::Legacy { session, outbox } => {
                Some(SessionToAsk { session: session.as_ref(), outbox: outbox.as_ref() })
            }
            Client::Modern { .. } => None,
        };
        let (core, caller, params) = (&*self.core, &self.caller, self.params.as_deref());
        gateway.confirm(&CallToConfirm { core, caller, params, target }, session).await
    }

    /// Answers a call that the gateway does not forward.
    fn unconfirmed(&self, unconfirmed: Unconfirmed) -> (Vec<u8>, Reply) {
        let (kind, result) = match unconfirmed {
            Unconfirmed::Refused(error) => return self.refused(&Refusal::Invalid(error)),
            Unconfirmed::Ask(result) => (ResultType::InputRequired, result),
            Unconfirmed::Declined(result) => (ResultType::Complete, result),
        };
        let mut output = Vec::new();
        write_result(&mut output, &Id::from(&self.id), |output| match self.revision.era() {
            Era::Modern => self.core.results().write(output, kind, None, &result, None),
            Era::Legacy => serde_json::to_writer(output, &result)
                .map_err(|_| Error::internal("cannot write the result as JSON")),
        });
        (output, Reply::Now(Status::Ok))
    }

    /// Lets a member's bridge handle the request with the parameters `params`.
    fn handled_by_member(
        self,
        bridge: &Arc<BridgeCore>,
        params: Option<&RawValue>,
        output: &mut Vec<u8>,
    ) -> Reply {
        let (core, caller, revision) = (&self.core, &self.caller, self.revision);
        let request = Request {
            id: Id::from(&self.id),
            method: Cow::Borrowed(&self.method),
            params: params.or(self.params.as_deref()),
        };
        let mut params = match Params::parse(request.params) {
            Ok(params) => params,
            Err(error) => return Reply::error(output, &request.id, &error),
        };
        params.meta.forwarded_trace.clone_from(&self.trace);
        let (request, params) = (&request, &params);
        match self.client {
            Client::Modern { param_headers, bytes } => {
                // The member's bridge counts the request itself.
                drop(bytes);
                let incoming = ModernRequest { core, revision, request, params, headers: None, caller };
                handle_modern_request(bridge, &incoming, param_headers, output)
            }
            Client::Legacy { session, .. } => {
                let session = session.as_ref();
                let incoming = LegacyRequest { core, session, revision, request, params, caller };
                handle_legacy_request(bridge, &incoming, output)
                    .unwrap_or_else(|| refuse_legacy(output, &request.id))
            }
        }
    }

    async fn list_tasks(self, gateway: &GatewayCore) -> (Vec<u8>, Reply) {
        let Client::Legacy { session: Some(session), .. } = &self.client else {
            return self.refused(&Refusal::Invalid(no_method()));
        };
        let request = TaskListRequest { core: &self.core, caller: &self.caller, session, id: &self.id };
        let mut output = Vec::new();
        request.handle(gateway, &mut output).await;
        (output, Reply::Now(Status::Ok))
    }

    fn refused(&self, refusal: &Refusal) -> (Vec<u8>, Reply) {
        let mut output = Vec::new();
        write_error(&mut output, Some(&Id::from(&self.id)), refusal.error());
        let status = match (self.revision.era(), refusal) {
            (Era::Legacy, _) => Status::Ok,
            (Era::Modern, Refusal::Unavailable(error)) => Status::Unavailable(retry_after(error)),
            (Era::Modern, Refusal::Limited(error)) => Status::TooManyRequests(retry_after(error)),
            (Era::Modern, Refusal::Invalid(error)) => Status::of(error),
        };
        (output, Reply::Now(status))
    }
}

/// Keeps `permits` until the answer is known or the request is canceled.
fn holding(reply: Reply, permits: CallPermits) -> Reply {
    match reply {
        Reply::Later(exchange) if !permits.is_empty() => {
            Reply::Later(exchange.on_answer(move |_| drop(permits)))
        }
        reply => reply,
    }
}

/// Makes all connected members that `caller` can use send the log messages that `session` wants. Waits at most
/// `list_wait` for the members, and at most `list_wait` for the lists that the access rules need.
async fn log_for(gateway: &GatewayCore, caller: &Caller, session: &Arc<Session>) {
    let visible = VisibleMembers::of(gateway, caller).await;
    let mut asking = JoinSet::new();
    for (_, member) in gateway.members.iter().enumerate().filter(|(index, _)| visible.contains(*index)) {
        let has_logs = member.capabilities(session.revision).logging.is_some();
        if let Some(bridge) = member.bridge().filter(|_| has_logs).cloned() {
            let (session, name) = (session.clone(), member.name.clone());
            asking.spawn(async move {
                if let Err(error) = bridge.log_for(&session).await {
                    tracing::debug!(server = %name, "cannot set the log level: {error}");
                }
            });
        }
    }
    // After the timeout, dropping the set cancels the remaining requests. Otherwise, a client could start any
    // number of them at a member that does not respond.
    let _ = timeout(gateway.list_wait, async { while asking.join_next().await.is_some() {} }).await;
}

/// Capacity of the queue for a question: the question, and the notification that it is canceled.
const OUTBOX_MESSAGES: usize = 2;
