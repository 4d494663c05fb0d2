//! Handles requests of clients: answers requests for lists and for log messages, and leaves all other
//! requests to the members.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use thruway_mcp::federated::ListKind;
use thruway_mcp::json_rpc::{Id, Request, write_error, write_result};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{RequestId, methods};
use thruway_mcp::{Era, Revision, dual_era};
use thruway_mcp_client::forwarding::ReceivedParamHeaders;
use thruway_mcp_server::backend::{
    Caller, Exchange, LegacyRequest, ModernRequest, Reply, ServerCore, Session, Share, Status,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::audit::{AuditedCall, AuditedRequest, CallProgress};
use super::gateway_core::GatewayCore;
use super::route::{Refusal, Routed};
use super::tasks::TaskListRequest;
use crate::bridge::{
    BridgeCore, MemberSessions, handle_legacy_request, handle_modern_request, no_method, note_level,
    param_headers,
};

/// A copy of a request. The copy lives while the gateway waits for lists or members.
struct OwnedRequest {
    core: Arc<ServerCore>,
    caller: Caller,
    id: RequestId,
    method: Box<str>,
    params: Option<Box<RawValue>>,
    revision: Revision,
    client: Client,
    /// The part of the audit that depends on the handling of the request.
    progress: Option<Arc<CallProgress>>,
}

/// The data of a request that differ between the eras.
enum Client {
    Legacy {
        session: Option<Arc<Session>>,
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
    let client = Client::Legacy { session: session.cloned() };
    let audited = gateway.audit(&AuditedRequest {
        caller,
        session: session.and_then(|session| MemberSessions::number_of(session)),
        method: &request.method,
        params,
        request_bytes: bytes_of(request),
        revision,
    });
    let request = OwnedRequest::new(core, caller, request, revision, client);
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
    OwnedRequest::new(core, caller, request, revision, client).handled_by(gateway, audited)
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
        }
    }

    fn handled_by(mut self, gateway: &Arc<GatewayCore>, audited: Option<AuditedCall>) -> Reply {
        let gateway = gateway.clone();
        self.progress = audited.as_ref().map(|audited| audited.progress().clone());
        let reply = Reply::deferred(async move {
            if let Some(progress) = &self.progress {
                progress.begin();
            }
            match ListKind::of_method(&self.method) {
                Some(kind) => self.list(&gateway, kind).await,
                None if *self.method == *methods::TASKS_LIST => self.list_tasks(&gateway).await,
                None => self.forward(&gateway).await,
            }
        });
        match (reply, audited) {
            (Reply::Later(exchange), Some(audited)) => {
                Reply::Later(exchange.on_answer(move |answer| audited.finish(answer)))
            }
            (reply, _) => reply,
        }
    }

    /// Answers with a page of the merged list.
    async fn list(self, gateway: &GatewayCore, kind: ListKind) -> (Vec<u8>, Reply) {
        let access = gateway.access_of(&self.caller);
        let listing = match gateway.catalog.list(kind, self.revision, access.as_ref()).await {
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

    /// Selects the member for the request, and lets the member's bridge forward the request.
    async fn forward(self, gateway: &GatewayCore) -> (Vec<u8>, Reply) {
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
        let mut output = Vec::new();
        let reply = self.handled_by_member(&target.bridge, target.params.as_deref(), &mut output);
        (output, reply)
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
        let params = match Params::parse(request.params) {
            Ok(params) => params,
            Err(error) => return Reply::error(output, &request.id, &error),
        };
        let (request, params) = (&request, &params);
        match self.client {
            Client::Modern { param_headers, bytes } => {
                // The member's bridge counts the request itself.
                drop(bytes);
                let incoming = ModernRequest { core, revision, request, params, headers: None, caller };
                handle_modern_request(bridge, &incoming, param_headers, output)
            }
            Client::Legacy { session } => {
                let session = session.as_ref();
                let incoming = LegacyRequest { core, session, revision, request, params, caller };
                handle_legacy_request(bridge, &incoming, output)
                    .unwrap_or_else(|| refuse_legacy(output, &request.id))
            }
        }
    }

    async fn list_tasks(self, gateway: &GatewayCore) -> (Vec<u8>, Reply) {
        let Client::Legacy { session: Some(session) } = &self.client else {
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
            (Era::Modern, Refusal::Unavailable(_)) => Status::Unavailable,
            (Era::Modern, Refusal::Invalid(error)) => Status::of(error),
        };
        (output, Reply::Now(status))
    }
}

/// Makes all connected members that `caller` can use send the log messages that `session` wants. Waits at most
/// `list_wait` for the members, and at most `list_wait` for the lists that the access rules need.
async fn log_for(gateway: &GatewayCore, caller: &Caller, session: &Arc<Session>) {
    let visible = gateway.visible_members(caller).await;
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
