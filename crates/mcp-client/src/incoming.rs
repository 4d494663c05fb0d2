//! Dispatch of received messages: answers go to the waiting requests, all other messages to their handlers.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::json_rpc::{Id, Notification, Response};
use thruway_mcp::params::{self, meta_keys};
use thruway_mcp::schema::{
    CancelledNotificationParams, ProgressNotificationParams, RequestId, RequestParams, methods,
};
use thruway_mcp::stdio::SkippedMessage;
use thruway_net::{Admitted, LogLimit};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::cache::Cache;
use super::deadline::Progress;
use super::error::McpClientError;
use super::handlers::{self, Handlers, LogOrigin};
use super::queue::Queue;
use super::reading::Answer;
use super::requester::{Requester, Unsent};

/// The requests in flight, and the handlers of all other messages.
#[derive(Debug)]
pub(super) struct Incoming {
    table: Mutex<Table>,
    pub(super) handlers: Handlers,
    pub(super) questions: Arc<AtomicUsize>,
    responses: Arc<AtomicUsize>,
}

#[derive(Default, Debug)]
struct Table {
    in_flight: HashMap<i64, Waiting, BuildHasherDefault<ById>>,
    /// The reason why no more messages can arrive, if the client is closed.
    closed: Option<McpClientError>,
    /// The queues of the legacy subscriptions. Each queue receives all changes that the server reports.
    queues: Vec<Arc<Queue>>,
    /// The elicitation, sampling and roots requests that the client is currently answering. Removing an entry
    /// stops the answer.
    asked: Vec<(RequestId, oneshot::Sender<()>)>,
    /// Calls that were canceled before their answer arrived. Used only if several clients of a bridge share
    /// this client. The value is the time until which the server may still work on the call. A message of
    /// the server that names no request may belong to such a call, so no other client of the bridge may
    /// receive the message.
    given_up: HashMap<i64, Instant, BuildHasherDefault<ById>>,
}

impl Table {
    /// `true` if the server may still work on a canceled call.
    fn has_given_up(&mut self) -> bool {
        if !self.given_up.is_empty() {
            let now = Instant::now();
            self.given_up.retain(|_, until| *until > now);
        }
        !self.given_up.is_empty()
    }
}

/// Hasher for request ids. It needs no protection against forced collisions, because this client chooses
/// the ids.
#[derive(Default)]
struct ById(u64);

/// The entry of a request in flight: the receivers of its answer and of the messages that belong to it.
#[derive(Default, Debug)]
pub(super) struct Waiting {
    /// Receives the answer, if all requests share one stream.
    pub(super) answer: Option<oneshot::Sender<Result<Answer, McpClientError>>>,
    /// `true` if the answer has arrived. Later messages that name no request do not belong to this request.
    pub(super) is_answered: bool,
    /// Receives progress reports.
    pub(super) progress: Option<Arc<Progress>>,
    /// Receives the changes, if the request is a subscription.
    pub(super) queue: Option<Arc<Queue>>,
    /// Receives the messages of the server that belong to this request, including elicitation, sampling and
    /// roots requests. Without a requester, the handlers of this client receive these messages.
    pub(super) requester: Option<Arc<dyn Requester>>,
    /// `true` for a forwarded request, such as a request from the client of a bridge.
    pub(super) is_forwarded: bool,
    /// Dropped when the request ends. If a handler is still answering a question that belongs to the request,
    /// this stops the handler.
    pub(super) end: Option<watch::Sender<()>>,
}

/// Counts a request of the server while the client answers it. Dropping the guard decrements the count.
pub(super) struct InputRequestGuard(Arc<AtomicUsize>);

impl Incoming {
    pub(crate) fn new(handlers: Handlers) -> Self {
        Self { table: Mutex::default(), handlers, questions: Arc::default(), responses: Arc::default() }
    }

    /// Registers `waiting` under the id of its request.
    ///
    /// # Errors
    /// Fails if the client is closed, because no more messages can arrive.
    pub(super) fn expect(&self, id: i64, waiting: Waiting) -> Result<(), McpClientError> {
        let mut table = self.table();
        if let Some(reason) = &table.closed {
            return Err(reason.clone());
        }
        table.in_flight.insert(id, waiting);
        Ok(())
    }

    /// Removes request `id`, because its caller no longer waits.
    pub(super) fn forget(&self, id: i64) {
        let mut table = self.table();
        let Some(waiting) = table.in_flight.remove(&id) else { return };
        let is_call = waiting.is_forwarded && waiting.queue.is_none() && !waiting.is_answered;
        if is_call && self.handlers.is_shared && table.given_up.len() < GIVEN_UP_MAX {
            table.given_up.insert(id, Instant::now() + GIVEN_UP_FOR);
        }
    }

    /// Fails all requests in flight and ends all subscriptions, because no more messages can arrive.
    pub(super) fn close(&self, reason: &McpClientError) {
        self.table().closed.get_or_insert_with(|| reason.clone());
        self.fail_all(reason);
        self.end_subscriptions(reason);
    }

    /// Ends all subscriptions with `reason`.
    pub(super) fn end_subscriptions(&self, reason: &McpClientError) {
        let mut table = self.table();
        let legacy = std::mem::take(&mut table.queues);
        let modern = table.in_flight.values().filter_map(|waiting| waiting.queue.clone());
        legacy.into_iter().chain(modern).for_each(|queue| queue.end(reason.clone()));
    }

    /// Fails all requests in flight.
    pub(super) fn fail_all(&self, reason: &McpClientError) {
        let waiting: Vec<_> =
            self.table().in_flight.values_mut().filter_map(|one| one.answer.take()).collect();
        for answer in waiting {
            // The send fails if the caller no longer waits.
            let _ = answer.send(Err(reason.clone()));
        }
    }

    /// Makes request `id` fail if it still waits for its answer.
    pub(super) fn fail(&self, id: i64, reason: McpClientError) {
        self.settle(id, Err(reason));
    }

    /// Handles a message that the client has skipped because it is too large. Fails the request that the
    /// message answers, or all requests if the id is unknown. `server` is the name of the server in log lines.
    pub(super) fn handle_skipped(&self, message: &SkippedMessage, server: Option<&str>) {
        match message {
            SkippedMessage::Answer(RequestId::Integer(id)) => {
                self.settle(*id, Err(McpClientError::MessageTooLarge));
            }
            // This client uses only numbers as request ids.
            SkippedMessage::Answer(RequestId::String(_))
            | SkippedMessage::Request(_)
            | SkippedMessage::Other => {
                static LIMIT: LogLimit = LogLimit::new();
                if let Some(Admitted { suppressed }) = LIMIT.admit() {
                    tracing::warn!(
                        server,
                        suppressed,
                        "dropped a message from the server: it is larger than `message_bytes_max`"
                    );
                }
            }
            SkippedMessage::Unknown => self.fail_all(&McpClientError::AnswerLost),
        }
    }

    /// Returns the reason why no more messages can arrive, if the client is closed.
    pub(super) fn closed(&self) -> Option<McpClientError> {
        self.table().closed.clone()
    }

    /// Adds the queue of a legacy subscription.
    ///
    /// # Errors
    /// Fails if the client is closed, because no more messages can arrive.
    pub(super) fn subscribe(&self, queue: &Arc<Queue>) -> Result<(), McpClientError> {
        let mut table = self.table();
        if let Some(reason) = &table.closed {
            return Err(reason.clone());
        }
        table.queues.push(queue.clone());
        Ok(())
    }

    pub(super) fn unsubscribe(&self, queue: &Arc<Queue>) {
        self.table().queues.retain(|one| !Arc::ptr_eq(one, queue));
    }

    /// Returns the queues of the legacy subscriptions.
    pub(super) fn queues(&self) -> Vec<Arc<Queue>> {
        self.table().queues.clone()
    }

    /// `true` while the client answers an elicitation, sampling or roots request of the server.
    pub(super) fn is_answering_question(&self) -> bool {
        self.questions.load(Ordering::Relaxed) > 0
    }

    /// Counts an elicitation, sampling or roots request of the server until the returned guard is dropped.
    pub(super) fn question(&self) -> InputRequestGuard {
        InputRequestGuard::new(&self.questions)
    }

    /// Counts a request of the server until the returned guard is dropped. Returns `None` if the client is
    /// already answering [`RESPONSES_MAX`] requests.
    pub(super) fn respond(&self) -> Option<InputRequestGuard> {
        let is_too_much = self.responses.load(Ordering::Relaxed) >= RESPONSES_MAX;
        (!is_too_much).then(|| InputRequestGuard::new(&self.responses))
    }

    /// Returns a receiver that resolves when the server cancels its request `id`, or when the client is
    /// dropped.
    pub(super) fn given_up(&self, id: &RequestId) -> oneshot::Receiver<()> {
        let (end, given_up) = oneshot::channel();
        let mut table = self.table();
        // Removes the requests that the client has answered since the last call.
        table.asked.retain(|(_, end)| !end.is_closed());
        table.asked.push((id.clone(), end));
        given_up
    }

    fn give_up(&self, notification: &Notification<'_>) {
        if let Ok(params) = params::parse::<CancelledNotificationParams>(notification.params) {
            self.table().asked.retain(|(id, _)| *id != params.request_id);
        }
    }

    pub(super) fn deliver(&self, response: &Response<'_>) {
        if let Some(Id::Integer(id)) = response.id {
            self.table().given_up.remove(&id);
            self.settle(id, outcome(response));
        }
    }

    /// Delivers the outcome to the caller that waits for request `id`, if any.
    fn settle(&self, id: i64, outcome: Result<Answer, McpClientError>) {
        let mut table = self.table();
        let Some(waiting) = table.in_flight.get_mut(&id) else { return };
        waiting.is_answered = true;
        let (answer, requester) = (waiting.answer.take(), waiting.requester.clone());
        drop(table);
        // Only the first answer to a request counts.
        if let (Some(_), Some(requester), Ok(answer)) = (&answer, &requester, &outcome) {
            requester.handle_shared_answer(answer);
        }
        if let Some(answer) = answer {
            let _ = answer.send(outcome);
        }
    }

    /// Returns the requester that must receive a message of the server. The message arrived with the answer
    /// to request `of`, or outside of any answer if `of` is `None`. Returns `None` if no single requester
    /// is known.
    pub(super) fn requester(&self, of: Option<i64>) -> Option<Arc<dyn Requester>> {
        let mut table = self.table();
        if let Some(id) = of {
            return table.in_flight.get(&id)?.requester.clone();
        }
        if table.has_given_up() {
            return None;
        }
        // Subscriptions are excluded, because they receive their messages separately. If any of the other
        // requests has no requester, the message may belong to that request, so no requester may receive
        // it.
        let requests = table.in_flight.values();
        let requests = requests.filter(|waiting| waiting.queue.is_none() && !waiting.is_answered);
        let mut requesters = requests.map(|waiting| waiting.requester.as_ref());
        let first = requesters.next()??;
        requesters.all(|other| other.is_some_and(|other| other.key() == first.key())).then(|| first.clone())
    }

    /// Resolves when request `of` has ended. If `of` is `None`, resolves when all requests of the requester
    /// with this `key` have ended.
    pub(super) fn forgotten(&self, of: Option<i64>, key: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut table = self.table();
        let waiting = table.in_flight.iter_mut().filter(|(id, waiting)| {
            let is_its = waiting.requester.as_ref().is_some_and(|requester| requester.key() == key);
            is_its && of.is_none_or(|of| of == **id)
        });
        let ends: Vec<_> = waiting
            .map(|(_, waiting)| waiting.end.get_or_insert_with(|| watch::channel(()).0).subscribe())
            .collect();
        async move {
            for mut end in ends {
                // No value is ever sent: `changed` fails when the sender is dropped.
                let _ = end.changed().await;
            }
        }
    }

    /// Returns `true` if both are true: no call is in flight, and the server has probably stopped working on
    /// canceled calls. A message that arrives outside of any answer then belongs to no call.
    fn is_outside_of_calls(&self) -> bool {
        let is_call = |one: &Waiting| one.is_forwarded && one.queue.is_none() && !one.is_answered;
        let mut table = self.table();
        !table.has_given_up() && !table.in_flight.values().any(is_call)
    }

    /// Returns the origin of a log message that has no requester. Returns `None` if the message arrived with
    /// the response to a forwarded request, because the sender of that request wants no log messages.
    fn origin_of_log(&self, of: Option<i64>) -> Option<LogOrigin> {
        match of {
            None if self.is_outside_of_calls() => Some(LogOrigin::OutsideOfCalls),
            None => Some(LogOrigin::DuringCalls),
            Some(id) => {
                let is_own = self.table().in_flight.get(&id).is_some_and(|waiting| !waiting.is_forwarded);
                is_own.then_some(LogOrigin::OwnRequest)
            }
        }
    }

    /// Handles a notification. May return a message, which the caller must deliver before it reads the next
    /// message of the server.
    pub(super) fn handle_notification(
        &self,
        notification: &Notification<'_>,
        of: Option<i64>,
        cache: &Cache,
    ) -> Option<Unsent> {
        match &*notification.method {
            methods::NOTIFICATIONS_PROGRESS => return self.handle_progress(notification),
            methods::NOTIFICATIONS_MESSAGE => {
                if let Some(requester) = self.requester(of) {
                    return requester.send_notification(notification);
                }
                if let Some(on_log) = &self.handlers.logs {
                    if let Some(origin) = self.origin_of_log(of) {
                        on_log(notification, origin);
                    }
                    return None;
                }
            }
            methods::NOTIFICATIONS_TASKS_STATUS => {
                if let Some(on_task) = &self.handlers.tasks {
                    return on_task(notification);
                }
            }
            methods::NOTIFICATIONS_CANCELLED => self.give_up(notification),
            _ => {}
        }
        self.handle_change(notification, cache);
        None
    }

    /// Passes any other notification to the subscriptions and to the `notify` callback.
    fn handle_change(&self, notification: &Notification<'_>, cache: &Cache) {
        let Some(server_notification) = handlers::notification(notification) else { return };
        cache.forget(&server_notification);
        match subscription_id(notification) {
            Some(id) => {
                let queue = self.table().in_flight.get(&id).and_then(|waiting| waiting.queue.clone());
                if let Some(queue) = queue {
                    queue.handle(&notification.method, &server_notification);
                }
            }
            None => self
                .queues()
                .iter()
                .for_each(|queue| queue.handle(&notification.method, &server_notification)),
        }
        if notification.method != methods::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED {
            self.handlers.notify(server_notification);
        }
    }

    fn handle_progress(&self, notification: &Notification<'_>) -> Option<Unsent> {
        let params = params::parse::<ProgressNotificationParams>(notification.params).ok()?;
        let RequestId::Integer(id) = params.progress_token else {
            return self.handlers.tasks.as_ref().and_then(|on_task| on_task(notification));
        };
        let progress = self.table().in_flight.get(&id).and_then(|waiting| waiting.progress.clone());
        progress?.handle(params)
    }

    /// Locks the table. Ignores poisoning, because the code that holds the lock does not panic in the
    /// middle of a change.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hasher for ById {
    fn write_i64(&mut self, id: i64) {
        // Spreads the id over all bits, because the hash table uses the highest and the lowest bits.
        self.0 = id.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl InputRequestGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for InputRequestGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time after a cancellation during which the server may still work on the call. Most servers end a
/// canceled call within this time.
const GIVEN_UP_FOR: Duration = Duration::from_mins(5);

/// Maximum number of canceled calls that the client remembers.
const GIVEN_UP_MAX: usize = 10_000;

/// Converts a response to the outcome of its request.
pub(super) fn outcome(response: &Response<'_>) -> Result<Answer, McpClientError> {
    match &response.outcome {
        Ok(result) => Ok((*result).to_owned()),
        Err(error) => Err(McpClientError::Server(error.clone())),
    }
}

/// Returns the id of the subscription that a notification belongs to.
fn subscription_id(notification: &Notification<'_>) -> Option<i64> {
    let params: RequestParams = params::parse(notification.params).ok()?;
    params.meta?.get(meta_keys::SUBSCRIPTION_ID)?.as_i64()
}

/// Maximum number of elicitation, sampling and roots requests of a server that the client answers at the same
/// time. The client refuses further requests.
pub(super) const QUESTIONS_MAX: usize = 64;

/// Maximum number of requests of a server that the client answers at the same time. The client ignores
/// further requests.
const RESPONSES_MAX: usize = 2 * QUESTIONS_MAX;

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use serde_json::value::RawValue;
    use thruway_mcp::json_rpc::Error;

    use super::*;
    use crate::requester::RawAnswer;

    struct One(u64);

    impl Requester for One {
        fn key(&self) -> u64 {
            self.0
        }

        fn ask(&self, _: &str, _: Option<&RawValue>) -> Pin<Box<dyn Future<Output = RawAnswer> + Send>> {
            Box::pin(async { Err(Error::internal("this test answers no requests")) })
        }

        fn send_notification(&self, _: &Notification<'_>) -> Option<Unsent> {
            None
        }
    }

    fn incoming(requesters: &[Option<u64>]) -> Incoming {
        let incoming = Incoming::new(Handlers::default());
        for (id, key) in (1..).zip(requesters) {
            let requester = key.map(|key| Arc::new(One(key)) as Arc<dyn Requester>);
            incoming.expect(id, Waiting { requester, ..Waiting::default() }).unwrap();
        }
        incoming
    }

    /// Regression test: the lookup skipped requests without a requester. A message for such a request then
    /// went to the only other requester.
    #[test]
    fn unrelated_message_goes_to_the_only_requester() {
        for (requesters, expected) in [
            (&[][..], None),
            (&[Some(7)], Some(7)),
            (&[Some(7), Some(7)], Some(7)),
            (&[Some(7), Some(8)], None),
            (&[Some(7), None], None),
            (&[None], None),
        ] {
            let requester = incoming(requesters).requester(None).map(|requester| requester.key());
            assert_eq!(requester, expected, "{requesters:?}");
        }
        assert_eq!(incoming(&[Some(7), None]).requester(Some(1)).map(|requester| requester.key()), Some(7));
    }

    /// Regression test: a server request directly after a response was assigned to the call that had just
    /// ended.
    #[test]
    fn message_after_response_does_not_belong_to_ended_call() {
        let incoming = incoming(&[Some(7), Some(8)]);
        assert!(incoming.requester(None).is_none());
        incoming.settle(1, Err(McpClientError::Closed));
        assert_eq!(incoming.requester(None).map(|requester| requester.key()), Some(8));
        incoming.settle(2, Err(McpClientError::Closed));
        assert!(incoming.requester(None).is_none());
    }

    #[test]
    fn server_request_ends_when_its_client_requests_are_forgotten() {
        let incoming = incoming(&[Some(7), Some(7), Some(8)]);
        let mut context = Context::from_waker(Waker::noop());
        let (mut first_ended, mut all_ended) =
            (pin!(incoming.forgotten(Some(1), 7)), pin!(incoming.forgotten(None, 7)));
        assert!(first_ended.as_mut().poll(&mut context).is_pending());
        incoming.forget(1);
        assert!(first_ended.as_mut().poll(&mut context).is_ready());
        assert!(all_ended.as_mut().poll(&mut context).is_pending());
        incoming.forget(2);
        assert!(all_ended.as_mut().poll(&mut context).is_ready());
    }
}
