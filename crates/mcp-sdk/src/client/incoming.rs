//! What arrives: answers find those who wait for them, everything else finds its handler.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::{RawValue, to_raw_value};
use thruway_mcp::json_rpc::{
    self, Error, Id, Message, Notification, Request, Response, write_error, write_result,
};
use thruway_mcp::params::{self, meta_keys};
use thruway_mcp::schema::{ProgressNotificationParams, RequestId, RequestParams, methods};
use tokio::sync::oneshot;

use super::cache::Cache;
use super::conversation::Conversation;
use super::deadline::Progress;
use super::error::McpClientError;
use super::handlers::{self, Direction, Handlers};
use super::party::{Party, RawAnswer};
use super::subscription::Queue;

/// The result of a request as it was sent.
pub(crate) type Answer = Box<RawValue>;

/// Who waits for what, and who is told the rest.
#[derive(Debug)]
pub(super) struct Incoming {
    table: Mutex<Table>,
    pub(super) handlers: Handlers,
    questions: AtomicUsize,
}

#[derive(Default, Debug)]
struct Table {
    in_flight: HashMap<i64, Waiting>,
    /// Why no answer can come any more.
    closed: Option<McpClientError>,
    /// Subscriptions of the legacy era, which are told what comes by itself.
    queues: Vec<Arc<Queue>>,
}

/// Who waits for an answer.
#[derive(Default, Debug)]
pub(super) struct Waiting {
    /// Where the answer goes if it comes on a stream that all requests have in common.
    pub(super) answer: Option<oneshot::Sender<Result<Answer, McpClientError>>>,
    /// What is told of progress.
    pub(super) progress: Option<Arc<Progress>>,
    /// What is told of changes, if the request is a subscription.
    pub(super) queue: Option<Arc<Queue>>,
    /// Who is asked and told, if that is not the client itself.
    pub(super) party: Option<Arc<dyn Party>>,
}

/// A question of the server is being answered while this lives.
pub(super) struct Questioned<'a>(&'a AtomicUsize);

impl Incoming {
    pub(super) fn new(handlers: Handlers) -> Self {
        Self { table: Mutex::default(), handlers, questions: AtomicUsize::new(0) }
    }

    /// Lets `waiting` be found by the id of its request.
    ///
    /// # Errors
    /// Nothing can come any more.
    pub(super) fn expect(&self, id: i64, waiting: Waiting) -> Result<(), McpClientError> {
        let mut table = self.table();
        if let Some(reason) = &table.closed {
            return Err(reason.clone());
        }
        table.in_flight.insert(id, waiting);
        Ok(())
    }

    /// Nobody waits any more for the answer to request `id`.
    pub(super) fn forget(&self, id: i64) {
        self.table().in_flight.remove(&id);
    }

    /// Nothing will come any more: everybody who waits is told why.
    pub(super) fn close(&self, reason: &McpClientError) {
        self.table().closed.get_or_insert_with(|| reason.clone());
        self.fail_all(reason);
        self.queues().iter().for_each(|queue| queue.end(reason.clone()));
    }

    /// Whoever waits for an answer is told that it cannot be had.
    pub(super) fn fail_all(&self, reason: &McpClientError) {
        let waiting: Vec<_> =
            self.table().in_flight.values_mut().filter_map(|one| one.answer.take()).collect();
        for answer in waiting {
            // Who does not wait any more does not mind.
            let _ = answer.send(Err(reason.clone()));
        }
    }

    /// Whether no answer can come any more.
    pub(super) fn is_closed(&self) -> bool {
        self.table().closed.is_some()
    }

    pub(super) fn subscribe(&self, queue: &Arc<Queue>) {
        self.table().queues.push(queue.clone());
    }

    pub(super) fn unsubscribe(&self, queue: &Arc<Queue>) {
        self.table().queues.retain(|one| !Arc::ptr_eq(one, queue));
    }

    /// What the subscriptions of the legacy era are about.
    pub(super) fn queues(&self) -> Vec<Arc<Queue>> {
        self.table().queues.clone()
    }

    /// Whether a question of the server is being answered.
    pub(super) fn is_questioned(&self) -> bool {
        self.questions.load(Ordering::Relaxed) > 0
    }

    /// A question is being answered.
    pub(super) fn question(&self) -> Questioned<'_> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        Questioned(&self.questions)
    }

    fn deliver(&self, response: &Response<'_>) {
        let Some(Id::Integer(id)) = response.id else { return };
        let answer = self.table().in_flight.get_mut(&id).and_then(|waiting| waiting.answer.take());
        if let Some(answer) = answer {
            let _ = answer.send(outcome(response));
        }
    }

    /// Whom something is for that came with the answer to request `of`, or by itself.
    fn party(&self, of: Option<i64>) -> Option<Arc<dyn Party>> {
        let table = self.table();
        if let Some(id) = of {
            return table.in_flight.get(&id)?.party.clone();
        }
        let mut parties = table.in_flight.values().filter_map(|waiting| waiting.party.as_ref());
        let first = parties.next()?;
        parties.all(|other| other.key() == first.key()).then(|| first.clone())
    }

    fn handle_notification(&self, notification: &Notification<'_>, of: Option<i64>, cache: &Cache) {
        if notification.method == methods::NOTIFICATIONS_PROGRESS {
            return self.handle_progress(notification);
        }
        if notification.method == methods::NOTIFICATIONS_MESSAGE
            && let Some(party) = self.party(of)
        {
            return party.tell(notification);
        }
        let Some(told) = handlers::notification(notification) else { return };
        cache.forget(&told);
        match subscription_id(notification) {
            Some(id) => {
                let queue = self.table().in_flight.get(&id).and_then(|waiting| waiting.queue.clone());
                if let Some(queue) = queue {
                    queue.handle(&notification.method, &told);
                }
            }
            None => self.queues().iter().for_each(|queue| queue.handle(&notification.method, &told)),
        }
        if notification.method != methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED {
            self.handlers.notify(told);
        }
    }

    fn handle_progress(&self, notification: &Notification<'_>) {
        let Ok(params) = params::parse::<ProgressNotificationParams>(notification.params) else { return };
        let RequestId::Integer(id) = params.progress_token else { return };
        let progress = self.table().in_flight.get(&id).and_then(|waiting| waiting.progress.clone());
        if let Some(progress) = progress {
            progress.handle(params);
        }
    }

    /// What is done under it cannot be interrupted half-way by a panic of somebody else.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Questioned<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Conversation {
    /// Handles octets that should be a message.
    ///
    /// # Errors
    /// They are none.
    pub(super) fn handle_octets(self: &Arc<Self>, octets: &[u8]) -> Result<(), McpClientError> {
        self.incoming.handlers.trace(Direction::Received, octets);
        let message = json_rpc::parse(octets).map_err(|_| McpClientError::MessageInvalid)?;
        self.handle_message(&message, None);
        Ok(())
    }

    /// Handles a message that nobody else has taken; it came with the answer to request `of`, or by itself.
    pub(super) fn handle_message(self: &Arc<Self>, message: &Message<'_>, of: Option<i64>) {
        match message {
            Message::Response(response) => self.incoming.deliver(response),
            Message::Notification(notification) => {
                self.incoming.handle_notification(notification, of, &self.cache);
            }
            Message::Request(request) => self.handle_request(request, of),
        }
    }

    /// Answers a request of the server. There are none in the modern era.
    fn handle_request(self: &Arc<Self>, request: &Request<'_>, of: Option<i64>) {
        if !self.is_legacy() {
            return;
        }
        let id = request.id.to_owned();
        let conversation = self.clone();
        if request.method == methods::PING {
            self.runtime.spawn(async move { conversation.respond(&id, Ok(empty())).await });
            return;
        }
        let answering = self.answering(request, of);
        self.runtime.spawn(async move {
            let answered = {
                let _questioned = conversation.incoming.question();
                match answering {
                    Ok(answering) => answering.await,
                    Err(error) => Err(error),
                }
            };
            conversation.respond(&id, answered).await;
        });
    }

    /// The answer to a question in the making: by whoever sent the request that it belongs to, or by the handler.
    fn answering(
        self: &Arc<Self>,
        request: &Request<'_>,
        of: Option<i64>,
    ) -> Result<Pin<Box<dyn Future<Output = RawAnswer> + Send>>, Error> {
        if self.incoming.questions.load(Ordering::Relaxed) >= QUESTIONS_MAX {
            return Err(Error::internal("too many questions are being answered"));
        }
        if let Some(party) = self.incoming.party(of) {
            return Ok(party.ask(&request.method, request.params));
        }
        let question = handlers::question(request)?;
        let conversation = self.clone();
        Ok(Box::pin(async move {
            let answer = conversation.incoming.handlers.answer(question).await?;
            to_raw_value(&answer).map_err(|_| Error::internal("the answer cannot be written"))
        }))
    }

    async fn respond(self: &Arc<Self>, id: &RequestId, answered: RawAnswer) {
        let mut octets = Vec::new();
        match answered {
            Ok(result) => write_result(&mut octets, &id.into(), |output| {
                output.extend_from_slice(result.get().as_bytes());
                Ok(())
            }),
            Err(error) => write_error(&mut octets, Some(&id.into()), &error),
        }
        // If it cannot be sent, whoever asked is gone, or gives up by itself.
        let _ = self.send(octets).await;
    }
}

/// What came of a request.
pub(super) fn outcome(response: &Response<'_>) -> Result<Answer, McpClientError> {
    match &response.outcome {
        Ok(result) => Ok((*result).to_owned()),
        Err(error) => Err(McpClientError::Server(error.clone())),
    }
}

/// Which subscription a notification belongs to.
fn subscription_id(notification: &Notification<'_>) -> Option<i64> {
    let params: RequestParams = params::parse(notification.params).ok()?;
    params.meta?.get(meta_keys::SUBSCRIPTION_ID)?.as_i64()
}

/// `{}`
fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an object")
}

/// How many questions of a server are answered at a time; more are refused.
const QUESTIONS_MAX: usize = 64;
