//! Delivers the messages that the server sends while it handles a request. The messages go to the client that
//! sent the request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thruway_mcp_client::forwarding::{Unsent, UnsentMessage};
use thruway_mcp_server::backend::{DroppedMessages, InterimMessage};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// A queue of messages that the bridge sends to a client during one request. The number and the total
/// size of the queued messages are limited.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct Outbox {
    sender: mpsc::Sender<InterimMessage>,
    shared: Arc<Shared>,
}

/// A weak reference to an [`Outbox`]. Unlike an `Outbox`, this reference does not keep the response to
/// the request open.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct WeakOutbox {
    sender: mpsc::WeakSender<InterimMessage>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Limits the size of the queued messages. Each byte of a message needs one semaphore permit.
    bytes: Arc<Semaphore>,
    /// `true` if the last delivery timed out because the client did not read.
    is_stalled: AtomicBool,
    dropped: Arc<DroppedMessages>,
}

/// A message that did not fit into its [`Outbox`]. The task that reads from the server stops reading until
/// this message is delivered.
#[derive(Debug)]
struct WaitingMessage {
    outbox: Outbox,
    message: Vec<u8>,
}

impl Outbox {
    /// Creates the message queue of a request. The returned receiver provides the messages for the
    /// response.
    pub(in crate::bridge) fn new(dropped: &Arc<DroppedMessages>) -> (Self, mpsc::Receiver<InterimMessage>) {
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        let bytes = Arc::new(Semaphore::new(BYTES_MAX as usize));
        let shared = Arc::new(Shared { bytes, is_stalled: AtomicBool::new(false), dropped: dropped.clone() });
        (Self { sender, shared }, messages)
    }

    /// Adds a message to the queue. If the queue is full, returns the message. The calling function must then
    /// deliver the message later. If the request has ended, discards the message, because the client expects
    /// no more messages.
    pub(in crate::bridge) fn send(&self, message: Vec<u8>) -> Option<Unsent> {
        let bytes = self.shared.bytes.clone().try_acquire_many_owned(permits(&message));
        let (Ok(bytes), Ok(permit)) = (bytes, self.sender.try_reserve()) else {
            return (!self.sender.is_closed())
                .then(|| Box::new(WaitingMessage { outbox: self.clone(), message }) as Unsent);
        };
        permit.send(InterimMessage::Forwarded { message, _capacity: bytes });
        self.shared.is_stalled.store(false, Ordering::Relaxed);
        None
    }

    /// Returns the channel for questions. A question waits until this channel has capacity.
    pub(in crate::bridge) const fn sender(&self) -> &mpsc::Sender<InterimMessage> {
        &self.sender
    }

    /// Returns the unique id of this queue. For a message that waits for capacity in this queue,
    /// [`UnsentMessage::reader`] returns the same id.
    pub(in crate::bridge) fn reader(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Returns the counter of the messages that the bridge has dropped.
    pub(in crate::bridge) fn dropped(&self) -> Arc<DroppedMessages> {
        self.shared.dropped.clone()
    }

    pub(in crate::bridge) fn downgrade(&self) -> WeakOutbox {
        WeakOutbox { sender: self.sender.downgrade(), shared: self.shared.clone() }
    }

    /// Waits until the queue has capacity for a message, and then sends the message. If the request ends
    /// during this wait, drops the message and counts it as dropped.
    async fn send_when_read(&self, message: Vec<u8>) {
        let bytes = self.shared.bytes.clone().acquire_many_owned(permits(&message));
        let sending = async {
            let bytes = bytes.await.ok()?;
            self.sender.send(InterimMessage::Forwarded { message, _capacity: bytes }).await.ok()
        };
        let sent = tokio::select! {
            sent = sending => sent,
            () = self.sender.closed() => None,
        };
        if sent.is_none() {
            self.shared.dropped.note(1, "a request ended before the client had read all messages");
        }
    }
}

impl WeakOutbox {
    /// Returns the queue if the request is still open.
    pub(in crate::bridge) fn upgrade(&self) -> Option<Outbox> {
        Some(Outbox { sender: self.sender.upgrade()?, shared: self.shared.clone() })
    }

    /// Returns the counter of the messages that the bridge has dropped.
    pub(in crate::bridge) fn dropped(&self) -> &DroppedMessages {
        &self.shared.dropped
    }
}

impl UnsentMessage for WaitingMessage {
    fn reader(&self) -> usize {
        self.outbox.reader()
    }

    fn deliver(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.outbox.send_when_read(self.message).await })
    }

    /// Waits for at most `limit`, and then drops the message. If the previous delivery to this queue timed
    /// out, the limit is zero.
    fn deliver_within(self: Box<Self>, limit: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Outbox { shared, .. } = &self.outbox;
            let limit = if shared.is_stalled.load(Ordering::Relaxed) { Duration::ZERO } else { limit };
            let is_stalled = timeout(limit, self.outbox.send_when_read(self.message)).await.is_err();
            shared.is_stalled.store(is_stalled, Ordering::Relaxed);
            if is_stalled {
                shared.dropped.note(1, "a client does not read the response to its request");
            }
        })
    }
}

/// Returns the number of permits that a message needs, one for each byte. A message of more than
/// [`BYTES_MAX`] bytes takes all permits.
fn permits(message: &[u8]) -> u32 {
    u32::try_from(message.len()).unwrap_or(BYTES_MAX).min(BYTES_MAX)
}

/// Maximum number of messages in the queue of a request.
const MESSAGES_MAX: usize = 4096;

/// Maximum total size of the messages in the queue of a request, in bytes. A larger message waits until the
/// queue is empty.
const BYTES_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use thruway_mcp_client::forwarding::{WAIT_MAX, WaitBudget};

    fn outbox() -> (Outbox, mpsc::Receiver<InterimMessage>, Arc<DroppedMessages>) {
        let dropped = Arc::default();
        let (outbox, messages) = Outbox::new(&dropped);
        (outbox, messages, dropped)
    }

    /// A message of a third of the outbox's capacity.
    fn message() -> Vec<u8> {
        vec![b'x'; BYTES_MAX as usize / 3]
    }

    fn fill(outbox: &Outbox) -> Unsent {
        assert!((0..3).all(|_| outbox.send(message()).is_none()));
        outbox.send(message()).expect("the outbox should be full")
    }

    /// Regression test: such a message was dropped at once, without a notice.
    #[tokio::test(start_paused = true)]
    async fn stream_of_one_client_waits_until_client_reads() {
        let (outbox, mut messages, dropped) = outbox();
        let mut budget = WaitBudget::new(false);
        let mut delivering = std::pin::pin!(budget.deliver(fill(&outbox)));
        assert!(timeout(Duration::from_hours(1), &mut delivering).await.is_err());
        drop(messages.recv().await);
        delivering.await;
        drop(outbox);
        let mut read = 0;
        while messages.recv().await.is_some() {
            read += 1;
        }
        assert_eq!((read, dropped.count()), (3, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_delays_shared_stream_once() {
        let (outbox, mut messages, dropped) = outbox();
        let mut budget = WaitBudget::new(true);
        let began = Instant::now();
        budget.deliver(fill(&outbox)).await;
        for _ in 0..1000 {
            budget.deliver(outbox.send(message()).unwrap()).await;
        }
        assert!(began.elapsed() < 2 * WAIT_MAX, "{:?}", began.elapsed());
        assert_eq!(dropped.count(), 1001);
        // Another client that does not read cannot use the budget again soon.
        let (other, _unread, _) = self::outbox();
        budget.deliver(fill(&other)).await;
        assert!(began.elapsed() < 2 * WAIT_MAX, "{:?}", began.elapsed());
        // A client that reads again gets messages again.
        drop(messages.recv().await);
        assert!(outbox.send(message()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn shared_stream_waits_for_slow_client() {
        let (outbox, mut messages, dropped) = outbox();
        let mut budget = WaitBudget::new(true);
        let unsent = fill(&outbox);
        let reading = async {
            tokio::time::sleep(WAIT_MAX / 2).await;
            drop(messages.recv().await);
        };
        tokio::join!(budget.deliver(unsent), reading);
        assert_eq!((messages.len(), dropped.count()), (3, 0));
    }

    /// Regression test: a message that was unread when its request ended was dropped, but not counted.
    #[tokio::test(start_paused = true)]
    async fn outbox_does_not_wait_for_ended_request() {
        let (outbox, messages, dropped) = outbox();
        let unsent = fill(&outbox);
        drop(messages);
        WaitBudget::new(false).deliver(unsent).await;
        assert_eq!(dropped.count(), 1);
        // The client does not wait for later messages, so dropping one is no loss.
        assert!(outbox.send(message()).is_none());
        assert_eq!(dropped.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_message_can_exceed_the_outbox_capacity() {
        let (outbox, mut messages, _) = outbox();
        assert!(outbox.send(vec![b'x'; 3 * BYTES_MAX as usize]).is_none());
        let unsent = outbox.send(b"{}".to_vec()).expect("the outbox should be full");
        let large = messages.recv().await.and_then(InterimMessage::into_message);
        assert_eq!(large.map(|message| message.len()), Some(3 * BYTES_MAX as usize));
        WaitBudget::new(false).deliver(unsent).await;
        assert_eq!(messages.recv().await.and_then(InterimMessage::into_message).as_deref(), Some(&b"{}"[..]));
    }
}
