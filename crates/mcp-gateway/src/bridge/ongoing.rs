//! Calls of modern clients to a legacy server.
//!
//! A legacy server asks questions with requests during a call. A modern client receives the questions in an
//! answer. The call continues without the client, until the client returns with its answers.

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

use super::leases::Lease;
use super::messages;
use super::outbox::Outbox;

/// Receives the questions and messages of a call.
pub(super) struct ModernRequester {
    key: u64,
    /// The queue for questions, if the client can answer any.
    questions: Option<mpsc::Sender<PendingQuestion>>,
    listener: Mutex<Listener>,
}

/// The open request of the client, if any.
#[derive(Default)]
pub(super) struct Listener {
    outbox: Option<Outbox>,
    progress_token: Option<RequestId>,
    log_level: Option<LoggingLevel>,
    /// Counts messages that arrive between a question and the return of the client, if the client requests
    /// messages.
    suspended: Option<Arc<DroppedMessages>>,
}

/// A question, and the receiver of its answer.
pub(super) struct PendingQuestion {
    question: Question,
    answer: oneshot::Sender<RawAnswer>,
}

#[derive(Serialize)]
struct Question {
    method: Box<str>,
    params: Option<Box<RawValue>>,
}

/// A call that runs in its own task. Dropping it cancels the call.
pub(super) struct Ongoing {
    task: JoinHandle<Result<Answer, McpClientError>>,
    questions: mpsc::Receiver<PendingQuestion>,
    /// The questions that the client has not answered.
    asked: BTreeMap<String, PendingQuestion>,
    last: u32,
    requester: Arc<ModernRequester>,
    /// The memory share of the parameters of the first request.
    _bytes: Option<Arc<Share>>,
}

/// The progress of a call.
pub(super) enum Step {
    Done(Result<Answer, McpClientError>),
    /// The client has not answered all questions.
    Asks,
}

impl Listener {
    /// Returns the listener for a request, and the messages for its response. Without a progress token or a
    /// log level, there are no messages.
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

    /// Returns the minimum level of log messages that the client requests.
    pub(super) const fn log_level(&self) -> Option<LoggingLevel> {
        self.log_level
    }

    /// Closes the response between two requests. The client receives no messages in the meantime.
    fn suspend(&mut self) {
        let suspended = self.outbox.take().map(|outbox| outbox.dropped());
        *self = Self { suspended: suspended.or(self.suspended.take()), ..Self::default() };
    }

    fn note_dropped(&self) {
        if let Some(dropped) = &self.suspended {
            dropped.note(1, "the client is answering a question");
        }
    }

    /// `true` if the client requests no messages.
    pub(super) const fn wants_no_messages(&self) -> bool {
        self.outbox.is_none()
    }
}

impl ModernRequester {
    /// Creates a party that cannot answer questions.
    pub(super) fn new(key: u64, listener: Listener) -> Arc<Self> {
        Arc::new(Self { key, questions: None, listener: Mutex::new(listener) })
    }

    /// Makes this party receive the progress and messages of `forwarded_call`.
    pub(super) fn attach_to(self: &Arc<Self>, forwarded_call: &mut ForwardedCall) {
        let requester = self.clone();
        forwarded_call.progress = Some(reporting(Arc::new(move |params| {
            let listener = requester.listener();
            let (Some(outbox), Some(token)) = (&listener.outbox, &listener.progress_token) else {
                listener.note_dropped();
                return None;
            };
            messages::report(outbox, token, params)
        })));
        forwarded_call.requester = Some(self.clone());
    }

    fn listen(&self, listener: Listener) {
        *self.listener() = listener;
    }

    fn listener(&self) -> MutexGuard<'_, Listener> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
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
            let nobody = || Error::new(ErrorCode::METHOD_NOT_FOUND, "the client cannot answer questions");
            let (answer, answered) = oneshot::channel();
            let questions = questions.ok_or_else(nobody)?;
            questions.send(PendingQuestion { question, answer }).await.map_err(|_| nobody())?;
            answered.await.map_err(|_| Error::internal("the client did not answer"))?
        })
    }

    fn is_reader_of(&self, unsent: &Unsent) -> bool {
        self.listener().outbox.as_ref().is_some_and(|outbox| unsent.reader() == outbox.reader())
    }

    fn tell(&self, notification: &Notification<'_>) -> Option<Unsent> {
        let listener = self.listener();
        let Some(outbox) = &listener.outbox else {
            listener.note_dropped();
            return None;
        };
        messages::log(outbox, listener.log_level, notification)
    }
}

impl Ongoing {
    /// Begins a call on its own server process.
    pub(super) fn begin(
        key: u64,
        lease: Lease,
        mut forwarded_call: ForwardedCall,
        listener: Listener,
        bytes: Option<Arc<Share>>,
    ) -> Self {
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        let listener = Mutex::new(listener);
        let requester = Arc::new(ModernRequester { key, questions: Some(sender), listener });
        requester.attach_to(&mut forwarded_call);
        let task = tokio::spawn(async move { lease.forward(&forwarded_call).await });
        Self { task, questions, asked: BTreeMap::new(), last: 0, requester, _bytes: bytes }
    }

    /// Runs until the call has an answer or a question.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            while let Ok(asked) = self.questions.try_recv() {
                self.note(asked);
            }
            // The server has canceled these questions.
            self.asked.retain(|_, asked| !asked.answer.is_closed());
            if !self.asked.is_empty() {
                return Step::Asks;
            }
            tokio::select! {
                biased;
                Some(asked) = self.questions.recv() => self.note(asked),
                outcome = &mut self.task => {
                    let outcome = outcome.unwrap_or(Err(McpClientError::Closed));
                    return Step::Done(outcome);
                }
            }
        }
    }

    fn note(&mut self, asked: PendingQuestion) {
        self.last += 1;
        self.asked.insert(format!("question-{}", self.last), asked);
    }

    /// Returns the open questions, each under the name for its answer.
    pub(super) fn questions(&self) -> BTreeMap<&str, impl Serialize + '_> {
        self.asked.iter().map(|(name, asked)| (name.as_str(), &asked.question)).collect()
    }

    /// Closes the response for messages. The client opens another one when it returns.
    pub(super) fn suspend(&self) {
        self.requester.listener().suspend();
    }

    /// Continues with the answers of the client. Questions without an answer are asked again.
    pub(super) fn resume(&mut self, params: &Params<'_>, listener: Listener) -> Result<(), Error> {
        let responses = params.input_responses.map_or("{}", RawValue::get);
        let responses: BTreeMap<String, Box<RawValue>> = serde_json::from_str(responses)
            .map_err(|_| Error::invalid_params("`inputResponses` must be an object"))?;
        self.requester.listen(listener);
        for (name, response) in responses {
            if let Some(asked) = self.asked.remove(&name) {
                // The send fails if the server has canceled the question.
                let _ = asked.answer.send(Ok(messages::one_line(&response)));
            }
        }
        Ok(())
    }
}

impl Drop for Ongoing {
    /// Cancels the call, because no other code learns that the caller stopped waiting.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Maximum number of queued questions of one call.
const QUESTIONS_MAX: usize = 16;
