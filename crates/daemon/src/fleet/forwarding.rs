//! Forwards a request to the replica with its session, state or task.

use std::sync::Arc;

use thruway_mcp_sdk::ReplicaId;
use thruway_mcp_sdk::backend::Caller;
use thruway_message::{
    FieldLine, FieldLines, FieldName, FieldSection, FieldValue, Method, OriginForm, RequestHead,
    RequestTarget, Version,
};
use thruway_server::{Answer, Handler, Request, Response};

use super::caller::CALLER;
use super::listener::{PATH, REPLICA};
use super::peers::Peer;
use super::replica::Fleet;
use super::watched_body;

/// The owner of a request: another live replica.
pub(crate) struct Owner {
    fleet: Arc<Fleet>,
    peer: Arc<Peer>,
}

/// Sends requests with a whole body to their owner.
pub(crate) struct ToOwner {
    owner: Owner,
    /// The name of the MCP endpoint.
    endpoint: String,
    caller: Caller,
    /// Answers the request if the owner does not.
    here: Arc<dyn Handler>,
}

impl Fleet {
    /// Returns the live replica `replica`. Reads the list from the store if the list in memory does not contain the
    /// replica, because the replica may be new.
    pub(crate) async fn owner(self: &Arc<Self>, replica: ReplicaId) -> Option<Owner> {
        if self.peers.get(replica).is_none() {
            self.replicas.refresh().await;
        }
        let owner = self.peers.get(replica).map(|peer| Owner { fleet: self.clone(), peer });
        if owner.is_none() {
            self.counts.count_missing_owner();
        }
        owner
    }
}

impl Owner {
    /// Returns a handler that forwards requests of `caller` to the endpoint `endpoint` of the owner. If the owner does
    /// not answer, `here` answers the request.
    pub(crate) fn handler(self, endpoint: &str, caller: Caller, here: Arc<dyn Handler>) -> ToOwner {
        ToOwner { owner: self, endpoint: endpoint.to_owned(), caller, here }
    }
}

impl Handler for ToOwner {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Some(kept) = request.copy_whole() else { return self.here.handle(request) };
        let caller = self.sealed_caller(request);
        let fields = fields_with(&caller, request.field_lines());
        let head = RequestHead {
            method: request.method(),
            target: RequestTarget::Origin(OriginForm::new(PATH)),
            version: Version::Http11,
            field_lines: fields.lines(),
        };
        let content = request.content().to_vec();
        let answer = request.forward_with_content(&head, &content, &self.owner.peer.forward);
        let Owner { fleet, peer } = &self.owner;
        let (fleet, peer, here) = (fleet.clone(), peer.clone(), self.here.clone());
        // A session has only one kind of stream without an end: the response to GET without `Last-Event-ID`.
        let is_endless = request.method() == Method::Get;
        Answer::later(async move {
            if let Some(response) = response_of(&peer, answer, is_endless).await {
                fleet.counts.count_forwarded();
                return response;
            }
            fleet.counts.count_missing_owner();
            tracing::debug!(replica = %peer.id, "the replica does not answer a forwarded request");
            match kept.forward_to(&here) {
                Answer::Now(response) => response,
                Answer::Later(later) => later.await,
            }
        })
    }
}

impl ToOwner {
    /// Returns the header about the caller. It is valid only for this request.
    fn sealed_caller(&self, request: &Request<'_>) -> String {
        let Owner { fleet, peer } = &self.owner;
        let parts = (request.method().as_str(), request.field_lines(), request.content());
        fleet.callers.seal(peer.id, &self.endpoint, &self.caller, parts)
    }
}

/// Returns the headers for the owner. The owner gets the verified caller, so it needs no credentials of the client.
fn fields_with(caller: &str, of_client: FieldLines<'_>) -> FieldSection {
    let bytes = of_client.bytes().len() + caller.len() + CALLER.len() + 4;
    let mut fields = FieldSection::with_capacity(bytes, of_client.len() + 1);
    let is_sent = |line: &FieldLine<'_>| !WITHHELD.iter().any(|withheld| line.name.is(withheld));
    for line in of_client.iter().filter(is_sent) {
        fields.append(line);
    }
    let value = FieldValue::new(caller.as_bytes());
    if let (Ok(name), Ok(value)) = (FieldName::new(CALLER.as_bytes()), value) {
        fields.append(FieldLine { name, value });
    }
    fields
}

/// Returns the response of the replica. Returns `None` if the replica has left the list or does not answer any
/// longer, or if the response is not from its peer listener.
async fn response_of(peer: &Arc<Peer>, answer: Answer, is_endless: bool) -> Option<Response> {
    let mut response = match answer {
        Answer::Now(response) => response,
        Answer::Later(later) => tokio::select! {
            biased;
            response = later => response,
            () = peer.lost() => return None,
        },
    };
    response.field(REPLICA)?;
    response.remove_field(REPLICA);
    Some(watched_body::watch(response, peer, is_endless))
}

/// Headers of a client that the owner does not get: credentials, headers that frame the body, a header that only
/// replicas send, and `Connection`, with which a client could remove that header.
const WITHHELD: [&str; 6] =
    ["Authorization", "Connection", "Content-Length", "Cookie", CALLER, "Transfer-Encoding"];
