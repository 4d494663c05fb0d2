//! One client on a connection of its own, whose messages come one after another and whose answers go the same
//! way.
//!
//! Bindings bring the messages and frame the answers; nothing here reads or writes.

use std::sync::Arc;

use thruway_mcp::json_rpc::{self, Error, ErrorCode, Message, Request, write_error};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{CancelledNotificationParams, methods};
use thruway_mcp::{Era, Revision, dual_era};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::authorization::Caller;
use crate::dispatch::{Exchange, Outgoing, Reply, change_notification, legacy, modern};
use crate::server::McpServer;
use crate::session::{InFlight, Session};

/// What is known of the client, and what it waits for.
pub(crate) struct Connection {
    server: McpServer,
    /// Begun by `initialize`, which makes the client one of the legacy era.
    session: Option<LocalSession>,
    in_flight: InFlight,
    /// Messages of requests that take their time, and of the session.
    outbox: mpsc::Sender<Vec<u8>>,
}

/// A session that ends with its connection.
struct LocalSession {
    session: Arc<Session>,
    /// The task that tells the client what belongs to no request of its own.
    telling: AbortHandle,
}

/// Gives up what is being handled when the connection is over, however that comes about.
pub(crate) struct CancelAtEnd(InFlight);

impl Connection {
    /// A connection of `server`, and what it sends besides the answers that are there at once.
    pub(crate) fn new(server: McpServer) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        (Self { server, session: None, in_flight: InFlight::default(), outbox }, messages)
    }

    /// What gives up, when it is dropped, whatever is being handled then: even if the connection has gone
    /// before.
    pub(crate) fn cancel_at_end(&self) -> CancelAtEnd {
        CancelAtEnd(self.in_flight.clone())
    }

    /// Nothing more will come: subscriptions have no answer, and what asks the client will get none.
    pub(crate) fn finish(self) {
        self.in_flight.cancel_subscriptions();
    }

    /// Handles a message of `caller`, or several that came as one array. Appends one message, or none if
    /// nothing is answered at once.
    pub(crate) fn handle_message(&mut self, caller: &Caller, message: &[u8], answers: &mut Vec<u8>) {
        match json_rpc::split_batch(message) {
            None => self.handle_one(caller, message, None, answers),
            Some(batch) => self.handle_batch(caller, batch, answers),
        }
    }

    fn handle_batch(
        &mut self,
        caller: &Caller,
        batch: Result<Vec<&serde_json::value::RawValue>, Error>,
        answers: &mut Vec<u8>,
    ) {
        let has_batches = self.session().is_some_and(|session| session.revision.has_batches());
        let messages = match batch {
            Ok(messages) if has_batches => messages,
            Ok(_) => {
                let error = Error::new(ErrorCode::INVALID_REQUEST, "only revision 2025-03-26 has batches");
                return write_error(answers, None, &error);
            }
            Err(error) => return write_error(answers, None, &error),
        };
        let (sender, later_answers) = mpsc::unbounded_channel();
        let mut at_once = Vec::new();
        for message in messages {
            let mut answer = Vec::new();
            self.handle_one(caller, message.get().as_bytes(), Some(&sender), &mut answer);
            if !answer.is_empty() {
                at_once.push(answer);
            }
        }
        // A handler may have ended already.
        let is_waiting = sender.strong_count() > 1 || !later_answers.is_empty();
        drop(sender);
        if is_waiting {
            tokio::spawn(complete_batch(at_once, later_answers, self.outbox.clone()));
        } else if !at_once.is_empty() {
            answers.extend(as_array(&at_once));
        }
    }

    /// Appends the answer to a message, if it is there at once. The later answer to a message of a batch goes
    /// to `batch`.
    fn handle_one(
        &mut self,
        caller: &Caller,
        message: &[u8],
        batch: Option<&BatchSender>,
        answers: &mut Vec<u8>,
    ) {
        match json_rpc::parse(message) {
            Ok(Message::Request(request)) => self.handle_request(caller, &request, batch, answers),
            Ok(Message::Response(response)) => {
                if let Some(session) = self.session() {
                    session.pending.handle_response(&response);
                }
            }
            Ok(Message::Notification(notification)) => {
                if let Some(session) = self.session() {
                    session.notify_backend(&notification);
                }
                if notification.method == methods::NOTIFICATIONS_CANCELLED
                    && let Ok(cancelled) = params::parse::<CancelledNotificationParams>(notification.params)
                {
                    self.in_flight.cancel(&cancelled.request_id);
                }
            }
            Err(invalid) => write_error(answers, invalid.id.as_ref(), &invalid.error),
        }
    }

    fn handle_request(
        &mut self,
        caller: &Caller,
        request: &Request<'_>,
        batch: Option<&BatchSender>,
        answers: &mut Vec<u8>,
    ) {
        let params = match Params::parse(request.params) {
            Ok(params) => params,
            Err(error) => return write_error(answers, Some(&request.id), &error),
        };
        let reply = match dual_era::era_of(&request.method, &params, None) {
            Era::Modern => modern::handle_request(&self.server, request, &params, None, caller, answers),
            Era::Legacy if request.method == methods::INITIALIZE => {
                return self.initialize(caller, request, answers);
            }
            Era::Legacy => {
                let session = self.session();
                let revision = session.map_or(Revision::LATEST_LEGACY, |session| session.revision);
                legacy::handle_request(&self.server, session, revision, request, &params, caller, answers)
            }
        };
        if let Reply::Later(exchange) = reply {
            self.spawn(exchange, request, batch, answers);
        }
    }

    fn initialize(&mut self, caller: &Caller, request: &Request<'_>, answers: &mut Vec<u8>) {
        if self.session.is_some() {
            let error = Error::new(ErrorCode::INVALID_REQUEST, "the session has begun already");
            return write_error(answers, Some(&request.id), &error);
        }
        let Some(session) = legacy::initialize(&self.server, request, answers) else { return };
        let session = Arc::new(session.of(caller));
        let telling = tokio::spawn(tell(session.clone(), self.outbox.downgrade())).abort_handle();
        self.session = Some(LocalSession { session, telling });
    }

    /// Lets a request be handled while others are.
    fn spawn(
        &self,
        mut exchange: Exchange,
        request: &Request<'_>,
        batch: Option<&BatchSender>,
        answers: &mut Vec<u8>,
    ) {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return write_error(
                answers,
                Some(&request.id),
                &Error::internal("too many requests are being handled"),
            );
        }
        let is_subscription = request.method == methods::SUBSCRIPTIONS_LISTEN;
        if is_subscription && batch.is_some() {
            // It never ends, and neither would the batch.
            let error = Error::new(ErrorCode::INVALID_REQUEST, "a subscription cannot be part of a batch");
            return write_error(answers, Some(&request.id), &error);
        }
        let Some(in_flight) = self.in_flight.begin(request.id.to_owned(), is_subscription) else {
            let error = Error::new(ErrorCode::INVALID_REQUEST, "a request with this id is being handled");
            return write_error(answers, Some(&request.id), &error);
        };
        let (outbox, batch) = (self.outbox.clone(), batch.cloned());
        let forward = async move {
            while let Some(outgoing) = exchange.next().await {
                let outgoing = match (outgoing, &batch) {
                    (Outgoing::Answer(answer, _), Some(batch)) => {
                        // If nobody takes it, the connection is over.
                        let _ = batch.send(answer);
                        continue;
                    }
                    (outgoing, _) => outgoing,
                };
                let Some(message) = outgoing.into_message() else { continue };
                if exchange.go_on_during(outbox.send(message)).await.is_err() {
                    return;
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                _ = in_flight.cancelled() => {}
                () = forward => {}
            }
        });
    }

    fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref().map(|session| &session.session)
    }
}

/// Tells the client of a session what changes, and asks what is asked outside of its requests, until nobody
/// is there.
async fn tell(session: Arc<Session>, outbox: mpsc::WeakSender<Vec<u8>>) {
    loop {
        let message = tokio::select! {
            change = session.subscription.next() => change_notification(&change, None),
            message = session.next_aside() => message,
        };
        let Some(outbox) = outbox.upgrade() else { return };
        if outbox.send(message).await.is_err() {
            return;
        }
    }
}

/// Takes the answers to requests of one batch.
type BatchSender = mpsc::UnboundedSender<Vec<u8>>;

/// Sends the answers to a batch once all of its requests have ended: as one array (JSON-RPC 2.0 §6, which
/// revision 2025-03-26 refers to). Requests that were canceled have no answer.
async fn complete_batch(
    mut answers: Vec<Vec<u8>>,
    mut later_answers: mpsc::UnboundedReceiver<Vec<u8>>,
    outbox: mpsc::Sender<Vec<u8>>,
) {
    while let Some(answer) = later_answers.recv().await {
        answers.push(answer);
    }
    if !answers.is_empty() {
        // If it cannot be sent, the connection is over.
        let _ = outbox.send(as_array(&answers)).await;
    }
}

/// Joins messages to a batch.
pub(crate) fn as_array(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut array = b"[".to_vec();
    array.extend_from_slice(&messages.join(&b','));
    array.push(b']');
    array
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        self.telling.abort();
        self.session.end();
    }
}

impl Drop for CancelAtEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// How many messages wait to be written before handlers do.
const MESSAGES_MAX: usize = 64;

/// How many requests are handled at a time, subscriptions among them; more are refused. To read no further
/// instead would lock those out that wait for the client: its answers come the same way.
const IN_FLIGHT_MAX: usize = 20_000;
