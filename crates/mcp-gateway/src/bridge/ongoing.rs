//! Forwards calls of modern clients to a legacy server.
//!
//! During a call, a legacy server asks a question by sending a request. A modern client gets this question in
//! the answer to its call. The client then sends the call again, together with its answer to the question. In
//! the meantime, the bridge keeps the call to the server open.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, ErrorCode, Notification};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{LoggingLevel, RequestId};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, RawAnswer, Requester, Unsent, reporting};
use thruway_mcp_server::backend::{DroppedMessages, InterimMessage, Share};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::messages;
use super::outbox::Outbox;
use super::server_pool::ReservedServer;

/// Handles the questions and messages that a server sends during a call of a modern client.
pub(super) struct ModernRequester {
    key: u64,
    /// The queue for questions. `None` if the bridge rejects all questions during this call.
    questions: Option<mpsc::Sender<PendingQuestion>>,
    sink: Mutex<MessageSink>,
}

/// The message queue of the client's open request, and the kinds of messages that the client wants.
#[derive(Default)]
pub(super) struct MessageSink {
    outbox: Option<Outbox>,
    progress_token: Option<RequestId>,
    log_level: Option<LoggingLevel>,
    /// Counts the messages that the bridge drops while the client has no open request. `None` until the
    /// bridge has sent a question, or if the client wants no messages.
    suspended: Option<Arc<DroppedMessages>>,
}

/// A question of the server, and the channel for the client's answer.
pub(super) struct PendingQuestion {
    question: Question,
    answer: oneshot::Sender<RawAnswer>,
}

#[derive(Serialize)]
struct Question {
    method: Box<str>,
    params: Option<Box<RawValue>>,
}

/// A call that runs in a separate tokio task. Dropping this value cancels the call.
pub(super) struct OngoingCall {
    task: JoinHandle<Result<Answer, McpClientError>>,
    questions: mpsc::Receiver<PendingQuestion>,
    /// The questions that the client has not answered yet, by name.
    pending: BTreeMap<String, PendingQuestion>,
    last: u32,
    requester: Arc<ModernRequester>,
    /// Counts the parameters of the client's first request toward `in_flight_bytes_max`.
    _bytes: Option<Arc<Share>>,
}

/// The next event of a call.
pub(super) enum Step {
    Done(Result<Answer, McpClientError>),
    /// The server waits for the client's answers to its questions.
    InputRequired,
}

impl MessageSink {
    /// Returns the sink for the messages of a request, and the receiver of these messages. A client wants
    /// messages only if its request has a progress token or a log level.
    pub(super) fn of(
        params: &Params<'_>,
        dropped: &Arc<DroppedMessages>,
    ) -> (Self, Option<mpsc::Receiver<InterimMessage>>) {
        let meta = &params.meta;
        let progress_token = meta.progress_token.as_ref().map(thruway_mcp::json_rpc::Id::to_owned);
        let log_level = meta.log_level.as_deref().and_then(|level| level.parse().ok());
        if progress_token.is_none() && log_level.is_none() {
            return (Self::default(), None);
        }
        let (outbox, messages) = Outbox::new(dropped);
        (Self { outbox: Some(outbox), progress_token, log_level, suspended: None }, Some(messages))
    }

    /// Returns the lowest severity of log messages that the client wants.
    pub(super) const fn log_level(&self) -> Option<LoggingLevel> {
        self.log_level
    }

    /// Closes the response stream after the bridge has sent a question. The client receives no messages until
    /// its next request.
    fn suspend(&mut self) {
        let suspended = self.outbox.take().map(|outbox| outbox.dropped());
        *self = Self { suspended: suspended.or(self.suspended.take()), ..Self::default() };
    }

    fn note_dropped(&self) {
        if let Some(dropped) = &self.suspended {
            dropped
                .note(1, "the client has no open request, because it is answering a request of the server");
        }
    }

    /// Returns `true` if the client wants no messages.
    pub(super) const fn wants_no_messages(&self) -> bool {
        self.outbox.is_none()
    }
}

impl ModernRequester {
    /// Creates a handler that forwards messages of the server, and rejects questions.
    pub(super) fn new(key: u64, sink: MessageSink) -> Arc<Self> {
        Arc::new(Self { key, questions: None, sink: Mutex::new(sink) })
    }

    /// Makes this value handle the server's progress reports, log messages and questions during
    /// `forwarded_call`.
    pub(super) fn attach_to(self: &Arc<Self>, forwarded_call: &mut ForwardedCall) {
        let requester = self.clone();
        forwarded_call.progress = Some(reporting(Arc::new(move |params| {
            let sink = requester.sink();
            let (Some(outbox), Some(token)) = (&sink.outbox, &sink.progress_token) else {
                sink.note_dropped();
                return None;
            };
            messages::report(outbox, token, params)
        })));
        forwarded_call.requester = Some(self.clone());
    }

    fn listen(&self, sink: MessageSink) {
        *self.sink() = sink;
    }

    fn sink(&self) -> MutexGuard<'_, MessageSink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requester for ModernRequester {
    fn key(&self) -> u64 {
        self.key
    }

    fn ask(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Pin<Box<dyn Future<Output = RawAnswer> + Send>> {
        let question = Question { method: method.into(), params: params.map(messages::one_line) };
        let questions = self.questions.clone();
        Box::pin(async move {
            let rejected = || {
                let reason = "the client accepts no elicitation, sampling or roots requests during this call";
                Error::new(ErrorCode::METHOD_NOT_FOUND, reason)
            };
            let (answer, answered) = oneshot::channel();
            let questions = questions.ok_or_else(rejected)?;
            questions.send(PendingQuestion { question, answer }).await.map_err(|_| rejected())?;
            answered.await.map_err(|_| Error::internal("the client did not answer the request"))?
        })
    }

    fn is_reader_of(&self, unsent: &Unsent) -> bool {
        self.sink().outbox.as_ref().is_some_and(|outbox| unsent.reader() == outbox.reader())
    }

    fn send_notification(&self, notification: &Notification<'_>) -> Option<Unsent> {
        let sink = self.sink();
        let Some(outbox) = &sink.outbox else {
            sink.note_dropped();
            return None;
        };
        messages::log(outbox, sink.log_level, notification)
    }
}

impl OngoingCall {
    /// Begins a call on a dedicated server.
    pub(super) fn begin(
        key: u64,
        server: ReservedServer,
        mut forwarded_call: ForwardedCall,
        sink: MessageSink,
        bytes: Option<Arc<Share>>,
    ) -> Self {
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        let sink = Mutex::new(sink);
        let requester = Arc::new(ModernRequester { key, questions: Some(sender), sink });
        requester.attach_to(&mut forwarded_call);
        let task = tokio::spawn(async move { server.forward(&forwarded_call).await });
        Self { task, questions, pending: BTreeMap::new(), last: 0, requester, _bytes: bytes }
    }

    /// Waits until the server answers the call or asks a question.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            while let Ok(pending) = self.questions.try_recv() {
                self.note(pending);
            }
            // Remove questions that the server has canceled.
            self.pending.retain(|_, pending| !pending.answer.is_closed());
            if !self.pending.is_empty() {
                return Step::InputRequired;
            }
            tokio::select! {
                biased;
                Some(pending) = self.questions.recv() => self.note(pending),
                outcome = &mut self.task => {
                    let outcome = outcome.unwrap_or(Err(McpClientError::Closed));
                    return Step::Done(outcome);
                }
            }
        }
    }

    fn note(&mut self, pending: PendingQuestion) {
        self.last += 1;
        self.pending.insert(format!("question-{}", self.last), pending);
    }

    /// Returns the unanswered questions by name. In its answers, the client must use the same names.
    pub(super) fn questions(&self) -> BTreeMap<&str, impl Serialize + '_> {
        self.pending.iter().map(|(name, pending)| (name.as_str(), &pending.question)).collect()
    }

    /// Closes the response stream. The client's next request opens another stream.
    pub(super) fn suspend(&self) {
        self.requester.sink().suspend();
    }

    /// Continues the call with the client's answers. If a question stays unanswered, the bridge asks it
    /// again.
    pub(super) fn resume(&mut self, params: &Params<'_>, sink: MessageSink) -> Result<(), Error> {
        let responses = params.input_responses.map_or("{}", RawValue::get);
        let responses: BTreeMap<String, Box<RawValue>> = serde_json::from_str(responses)
            .map_err(|_| Error::invalid_params("`inputResponses` must be an object"))?;
        self.requester.listen(sink);
        for (name, response) in responses {
            if let Some(pending) = self.pending.remove(&name) {
                // Sending fails only after the server has canceled the question, so ignore the error.
                let _ = pending.answer.send(Ok(messages::one_line(&response)));
            }
        }
        Ok(())
    }
}

impl Drop for OngoingCall {
    /// Cancels the call, because no other code notices that the caller stopped waiting.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Maximum number of queued questions of one call.
const QUESTIONS_MAX: usize = 16;
