//! The state that all clones of a client share, and the exchange of one request and its answer.

use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use thruway_mcp::Era;
use thruway_mcp::json_rpc::write_notification;
use thruway_mcp::schema::{CancelledNotificationParams, LoggingLevel, RequestId, methods};
use thruway_message::FieldLinesBuf;
use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::binding::{Binding, Outgoing, Received};
use super::cache::Cache;
use super::deadline::{Progress, RequestTimeouts};
use super::eras::NegotiatedProtocol;
use super::error::McpClientError;
use super::handlers::{Direction, Handlers};
use super::incoming::{Incoming, Waiting};
use super::options::McpClientOptions;
use super::param_headers::ListedParamHeaders;
use super::queue::{Queue, Resubscription, UriLocks};
use super::reading::Wanted;
use super::requester::Requester;
use super::tools::KnownTools;

/// The state that all clones of a client share.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) options: McpClientOptions,
    pub(super) binding: Binding,
    pub(super) incoming: Incoming,
    /// The tokio runtime that created the client. The tasks that read and write the stream run in this
    /// runtime.
    pub(super) runtime: Handle,
    pub(super) tools: KnownTools,
    /// Headers that forwarded tool calls must have.
    pub(super) param_headers: ListedParamHeaders,
    /// Cached results (MCP revision 2026-07-28).
    pub(super) cache: Cache,
    /// The protocol that was negotiated with the server, if any.
    negotiated: ArcSwapOption<NegotiatedProtocol>,
    /// The negotiation in progress, if any.
    negotiation: Mutex<Option<Negotiation>>,
    pub(super) resubscription: Resubscription,
    pub(super) subscribing: UriLocks,
    /// Era of the server, once known. Stays set when a session ends.
    pub(super) era: std::sync::OnceLock<Era>,
    last_id: AtomicI64,
    /// Number of times that the child process has exited, or the stream of HTTP with SSE has ended.
    connection_losses: AtomicU64,
    /// Minimum level of the log messages that the client requests. Stored as the index of the level plus
    /// one, or as 0 if no level is set.
    log_level: AtomicU8,
}

/// The outcome of a negotiation.
type Agreed = Result<Arc<NegotiatedProtocol>, McpClientError>;

/// A negotiation in progress: the receiver of its outcome, and the runtime of its background task.
#[derive(Debug)]
struct Negotiation {
    outcome: watch::Receiver<Option<Agreed>>,
    runtime: runtime::Id,
}

/// Options of a caller that waits for the answer to a request.
pub(super) struct Waiter {
    pub(super) request_timeouts: RequestTimeouts,
    pub(super) progress: Option<Arc<Progress>>,
    pub(super) queue: Option<Arc<Queue>>,
    /// Receives the messages of the server that belong to this request, including elicitation, sampling and
    /// roots requests. Without a requester, the handlers of this client receive these messages.
    pub(super) requester: Option<Arc<dyn Requester>>,
    /// `true` for a forwarded request, such as a request from the client of a bridge.
    pub(super) is_forwarded: bool,
    /// `true` if the client notifies the server when the caller stops waiting.
    pub(super) cancels: bool,
}

/// Removes a request from the table of requests when dropped. Also cancels the request if the caller
/// stopped waiting before the answer arrived.
struct InFlight<'c> {
    conversation: &'c Arc<Conversation>,
    id: i64,
    cancels: bool,
}

impl Conversation {
    pub(crate) fn new(
        options: McpClientOptions,
        binding: Binding,
        handlers: Handlers,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            binding,
            incoming: Incoming::new(handlers),
            runtime,
            tools: KnownTools::default(),
            param_headers: ListedParamHeaders::default(),
            cache: Cache::default(),
            negotiated: ArcSwapOption::empty(),
            negotiation: Mutex::default(),
            resubscription: Resubscription::default(),
            subscribing: UriLocks::default(),
            era: std::sync::OnceLock::new(),
            last_id: AtomicI64::new(0),
            connection_losses: AtomicU64::new(0),
            log_level: AtomicU8::new(0),
        })
    }

    /// Returns the negotiated protocol. Negotiates the protocol first if necessary.
    pub(super) async fn negotiated(self: &Arc<Self>, request_timeouts: RequestTimeouts) -> Agreed {
        match self.negotiated.load_full() {
            Some(negotiated) => Ok(negotiated),
            // Boxed to keep the futures of later calls small.
            None => Box::pin(self.wait_to_agree(request_timeouts)).await,
        }
    }

    async fn wait_to_agree(self: &Arc<Self>, request_timeouts: RequestTimeouts) -> Agreed {
        let mut negotiation = self.negotiation();
        let agreed = pin!(async {
            let agreed = negotiation.wait_for(Option::is_some).await.ok();
            let gone =
                || if self.is_runtime_gone() { McpClientError::RuntimeEnded } else { McpClientError::Closed };
            agreed.and_then(|agreed| agreed.clone()).unwrap_or_else(|| Err(gone()))
        });
        request_timeouts.wait(None, || false, || self.binding.waited_until(), agreed).await
    }

    /// Returns the receiver of the negotiation in progress, or starts a negotiation. All waiting callers
    /// receive the same outcome. The negotiation continues when a caller stops waiting, so that the next
    /// call need not start again.
    fn negotiation(self: &Arc<Self>) -> watch::Receiver<Option<Agreed>> {
        let mut under_way = self.negotiation.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = self.runtime_of_tasks().id();
        // A negotiation in another runtime may stall. A closed channel means that the task of the
        // negotiation has ended.
        let is_useful = |one: &&Negotiation| one.runtime == runtime && one.outcome.has_changed().is_ok();
        if let Some(negotiation) = under_way.as_ref().filter(is_useful) {
            return negotiation.outcome.clone();
        }
        let (send_notification, outcome) = watch::channel(None);
        *under_way = Some(Negotiation { outcome: outcome.clone(), runtime });
        let conversation = self.clone();
        self.spawn(async move {
            let agreed = conversation.negotiate().await;
            send_notification.send_replace(Some(agreed));
            let mut under_way = conversation.negotiation.lock().unwrap_or_else(PoisonError::into_inner);
            under_way.take();
        });
        outcome
    }

    async fn negotiate(self: &Arc<Self>) -> Agreed {
        if let Some(negotiated) = self.current() {
            return Ok(negotiated);
        }
        if let Some(reason) = self.incoming.closed() {
            return Err(reason);
        }
        self.binding.reopen(self).await?;
        let negotiated = Arc::new(NegotiatedProtocol::negotiate(self).await?);
        if let Some(reason) = self.incoming.closed() {
            // Another task closed the client in the meantime, but could not end this new session.
            let _ = negotiated.end(self).await;
            return Err(reason);
        }
        if let Some(other) = self.current() {
            // Another runtime has negotiated the protocol in the meantime.
            let _ = negotiated.end(self).await;
            return Ok(other);
        }
        let _ = self.era.set(negotiated.era());
        self.negotiated.store(Some(negotiated.clone()));
        negotiated.begin(self);
        Ok(negotiated)
    }

    /// Runs `task` in the background.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime_of_tasks().spawn(task)
    }

    /// Returns the runtime for background tasks. A stream uses the runtime that created the client. HTTP uses
    /// the runtime of the call, because the runtime that created the client may have ended or be idle.
    fn runtime_of_tasks(&self) -> Handle {
        let current = if let Binding::Http(_) = self.binding { Handle::try_current().ok() } else { None };
        current.unwrap_or_else(|| self.runtime.clone())
    }

    /// `true` if the runtime of the stream to the server has ended.
    pub(super) fn is_runtime_gone(&self) -> bool {
        if let Binding::Http(_) = self.binding {
            return false;
        }
        // If the runtime has ended, a new task finishes at once.
        let task = self.runtime.spawn(std::future::pending::<()>());
        let is_runtime_gone = task.is_finished();
        task.abort();
        is_runtime_gone
    }

    /// Discards the current protocol if it is still `negotiated`. The next call then negotiates again.
    pub(super) fn forget(&self, negotiated: &Arc<NegotiatedProtocol>) {
        let current = self.negotiated.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, negotiated)) {
            self.negotiated.compare_and_swap(&*current, None);
        }
    }

    /// Ends the session and stops the child process, if any. Later calls fail and start no new session.
    pub(super) async fn close(self: &Arc<Self>) {
        if let Binding::Http(_) = self.binding {
            // Without HTTP, the end of the stream closes `incoming`. Over HTTP, no other code does this.
            self.incoming.close(&McpClientError::Closed);
        }
        if let Some(negotiated) = self.negotiated.swap(None) {
            // If this request fails, the session expires later.
            let _ = negotiated.end(self).await;
        }
        self.binding.close().await;
        // If the child process exited before this call, the end of its stream did not close `incoming`.
        self.incoming.close(&McpClientError::Closed);
    }

    /// Handles the exit of a child process that the client can restart, or the end of a stream of HTTP with
    /// SSE. Discards the negotiated protocol and fails the requests in flight.
    pub(super) fn lose(self: &Arc<Self>) {
        self.connection_losses.fetch_add(1, Ordering::AcqRel);
        self.negotiated.store(None);
        self.param_headers.invalidate();
        self.incoming.fail_all(&McpClientError::Closed);
        if !self.incoming.queues().is_empty() {
            self.resubscribe();
        }
    }

    pub(crate) fn connection_losses(&self) -> u64 {
        self.connection_losses.load(Ordering::Acquire)
    }

    /// Starts a new session after the session with the headers `field_lines` has ended. Does nothing if
    /// that session is no longer the current one.
    pub(super) fn renew(self: &Arc<Self>, field_lines: &FieldLinesBuf) {
        let is_its = |current: &Arc<NegotiatedProtocol>| current.field_lines().bytes() == field_lines.bytes();
        if let Some(current) = self.current().filter(is_its) {
            self.forget(&current);
            self.resubscribe();
        }
    }

    pub(super) fn current(&self) -> Option<Arc<NegotiatedProtocol>> {
        self.negotiated.load_full()
    }

    /// `true` unless the server is known to be modern. Only legacy servers may send requests.
    pub(super) fn is_legacy(&self) -> bool {
        self.era.get() != Some(&Era::Modern)
    }

    pub(super) fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        let place = usize::from(self.log_level.load(Ordering::Relaxed));
        LoggingLevel::ALL.get(place.checked_sub(1)?).copied()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        let place = LoggingLevel::ALL.iter().position(|one| *one == level);
        let place = place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or(0);
        self.log_level.store(place, Ordering::Relaxed);
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request. The client then notifies the server if `waiter.cancels` is
    /// set.
    pub(super) async fn exchange<R: Wanted>(
        self: &Arc<Self>,
        id: i64,
        outgoing: Outgoing,
        waiter: Waiter,
    ) -> Result<Received<R>, McpClientError> {
        self.incoming.handlers.trace(Direction::Sent, &outgoing.bytes);
        let (sender, answer) = self.binding.has_common_stream().then(oneshot::channel).unzip();
        let progress = waiter.progress.clone();
        let Waiter { progress: reported, queue, requester, is_forwarded, .. } = waiter;
        let waiting = Waiting {
            answer: sender,
            progress: reported,
            queue,
            requester,
            is_forwarded,
            ..Waiting::default()
        };
        self.incoming.expect(id, waiting)?;
        let mut in_flight = InFlight { conversation: self, id, cancels: waiter.cancels };
        let answer = pin!(self.binding.exchange(self, id, outgoing, answer));
        let outcome = waiter
            .request_timeouts
            .wait(
                progress.as_deref(),
                || self.incoming.is_answering_question(),
                || self.binding.waited_until(),
                answer,
            )
            .await;
        in_flight.cancels &= outcome.as_ref().is_err_and(|error| {
            matches!(
                error,
                McpClientError::AnswerLost | McpClientError::MessageTooLarge | McpClientError::TimedOut
            )
        });
        outcome
    }

    /// Sends a notification or an answer, with the headers of the current session.
    pub(super) async fn send(self: &Arc<Self>, bytes: Vec<u8>) -> Result<(), McpClientError> {
        self.send_with(bytes, self.field_lines()).await
    }

    /// Sends a notification or an answer, with the headers `field_lines`.
    pub(super) async fn send_with(
        self: &Arc<Self>,
        bytes: Vec<u8>,
        field_lines: FieldLinesBuf,
    ) -> Result<(), McpClientError> {
        let sending = self.binding.send(self.outgoing(bytes, field_lines));
        tokio::time::timeout(self.options.timeout, sending).await.map_err(|_| McpClientError::TimedOut)?
    }

    fn outgoing(&self, bytes: Vec<u8>, field_lines: FieldLinesBuf) -> Outgoing {
        self.incoming.handlers.trace(Direction::Sent, &bytes);
        Outgoing { bytes, field_lines, ..Outgoing::default() }
    }

    fn field_lines(&self) -> FieldLinesBuf {
        self.current().map(|negotiated| negotiated.field_lines().clone()).unwrap_or_default()
    }

    async fn cancel(self: Arc<Self>, id: i64) {
        let params = CancelledNotificationParams {
            request_id: RequestId::Integer(id),
            reason: Some("the caller no longer waits".to_owned()),
            meta: None,
        };
        let mut bytes = Vec::new();
        write_notification(&mut bytes, methods::NOTIFICATIONS_CANCELLED, &params);
        let sending = self.binding.try_send(self.outgoing(bytes, self.field_lines()));
        // If the server does not accept this message in time, the client does not send it again.
        let _ = tokio::time::timeout(self.options.timeout, sending).await;
    }
}

/// Dropping the future of a call cancels the call, and the specification requires that the client notifies
/// the server. The destructor sends this notification because no other code learns that the future was
/// dropped.
impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.conversation.incoming.forget(self.id);
        if self.cancels {
            self.conversation.spawn(self.conversation.clone().cancel(self.id));
        }
    }
}
