//! The connection of one client. Messages of the client arrive one after another, and the server sends its
//! answers over the same connection.
//!
//! This module does no I/O, because the transports read the messages and write the answers.

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

/// The state of one connection.
pub(crate) struct Connection {
    server: McpServer,
    /// The session that `initialize` begins (legacy era).
    session: Option<LocalSession>,
    in_flight: InFlight,
    /// Queue for all messages to the client except immediate answers.
    outbox: mpsc::Sender<Vec<u8>>,
}

/// A session that ends when its connection ends.
struct LocalSession {
    session: Arc<Session>,
    /// The background tokio task that sends change notifications and messages of the backend.
    forwarding: AbortHandle,
}

/// Cancels all requests in progress on a connection when this guard is dropped.
pub(crate) struct CancelAtEnd(InFlight);

impl Connection {
    /// Returns a connection of `server`, and the receiver of the queue for all messages to the client except
    /// immediate answers.
    pub(crate) fn new(server: McpServer) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        (Self { server, session: None, in_flight: InFlight::default(), outbox }, messages)
    }

    /// Returns a guard that cancels all requests in progress when the guard is dropped. The connection may be
    /// dropped before the guard.
    pub(crate) fn cancel_at_end(&self) -> CancelAtEnd {
        CancelAtEnd(self.in_flight.clone())
    }

    /// Handles the end of the client's input. Cancels all subscriptions, because they would never end. Also
    /// ends the session, so that handlers do not wait for the client's answers to their questions.
    pub(crate) fn finish(self) {
        self.in_flight.cancel_subscriptions();
    }

    /// Handles a message of `caller`, or a batch of messages. If the answer is available immediately, appends
    /// it to `answers`.
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
                let error = Error::new(
                    ErrorCode::INVALID_REQUEST,
                    "batches are supported only in MCP revision 2025-03-26",
                );
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
        // A handler that has already finished has dropped its sender, but its answer may be in the channel.
        let is_waiting = sender.strong_count() > 1 || !later_answers.is_empty();
        drop(sender);
        if is_waiting {
            tokio::spawn(complete_batch(at_once, later_answers, self.outbox.clone()));
        } else if !at_once.is_empty() {
            answers.extend(as_array(&at_once));
        }
    }

    /// Handles one message. Appends the answer to `answers` if the answer is available immediately. If the
    /// message is part of a batch, sends a later answer to `batch`.
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
            let error = Error::new(ErrorCode::INVALID_REQUEST, "the session is already initialized");
            return write_error(answers, Some(&request.id), &error);
        }
        let Some(session) = legacy::initialize(&self.server, request, answers) else { return };
        let session = Arc::new(session.of(caller));
        let forwarding =
            tokio::spawn(forward_notifications(session.clone(), self.outbox.downgrade())).abort_handle();
        self.session = Some(LocalSession { session, forwarding });
    }

    /// Spawns a tokio task that completes a request, so that the connection can handle other requests
    /// meanwhile.
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
                &Error::internal("too many requests are in progress: wait for answers before sending more"),
            );
        }
        let is_subscription = request.method == methods::SUBSCRIPTIONS_LISTEN;
        if is_subscription && batch.is_some() {
            // A subscription never ends, so the answer to the batch would never be complete.
            let error = Error::new(ErrorCode::INVALID_REQUEST, "a subscription cannot be part of a batch");
            return write_error(answers, Some(&request.id), &error);
        }
        let Some(in_flight) = self.in_flight.begin(request.id.to_owned(), is_subscription) else {
            let error = Error::new(
                ErrorCode::INVALID_REQUEST,
                "a request with this id is already in progress: use another id",
            );
            return write_error(answers, Some(&request.id), &error);
        };
        let (outbox, batch) = (self.outbox.clone(), batch.cloned());
        let forward = async move {
            while let Some(outgoing) = exchange.next().await {
                let outgoing = match (outgoing, &batch) {
                    (Outgoing::Answer(answer, _), Some(batch)) => {
                        // Sending fails only if the connection has ended.
                        let _ = batch.send(answer);
                        continue;
                    }
                    (outgoing, _) => outgoing,
                };
                let Some(message) = outgoing.into_message() else { continue };
                if exchange.poll_during(outbox.send(message)).await.is_err() {
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

/// Sends the change notifications and the backend messages of a session to the client until the connection
/// ends.
async fn forward_notifications(session: Arc<Session>, outbox: mpsc::WeakSender<Vec<u8>>) {
    loop {
        let message = tokio::select! {
            change = session.subscription.next() => change_notification(&change, None),
            message = session.next_out_of_band() => message,
        };
        let Some(outbox) = outbox.upgrade() else { return };
        if outbox.send(message).await.is_err() {
            return;
        }
    }
}

/// Sends answers to [`complete_batch`], which collects all answers of one batch.
type BatchSender = mpsc::UnboundedSender<Vec<u8>>;

/// Waits until all requests of a batch have ended, and sends their answers as one array (JSON-RPC 2.0 §6).
/// Canceled requests have no answer.
async fn complete_batch(
    mut answers: Vec<Vec<u8>>,
    mut later_answers: mpsc::UnboundedReceiver<Vec<u8>>,
    outbox: mpsc::Sender<Vec<u8>>,
) {
    while let Some(answer) = later_answers.recv().await {
        answers.push(answer);
    }
    if !answers.is_empty() {
        // Sending fails only if the connection has ended.
        let _ = outbox.send(as_array(&answers)).await;
    }
}

/// Joins messages into one JSON array.
pub(crate) fn as_array(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut array = b"[".to_vec();
    array.extend_from_slice(&messages.join(&b','));
    array.push(b']');
    array
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        self.forwarding.abort();
        self.session.end();
    }
}

impl Drop for CancelAtEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Maximum number of messages that wait to be sent to the client. If the queue is full, handlers wait.
const MESSAGES_MAX: usize = 64;

/// Maximum number of requests in progress on one connection, including subscriptions. The server rejects
/// further requests, but continues to read messages. Otherwise, a handler that waits for an answer of the
/// client would wait forever, because the answer arrives on this connection.
const IN_FLIGHT_MAX: usize = 20_000;
