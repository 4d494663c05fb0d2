//! Open event streams, and the client messages that wait in each stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use thruway_net::unguessable_id;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::authorization::Caller;
use crate::session::{NoCapacity, SessionLimits};
use crate::shares::{Holder, Share};

/// The open streams of a server, by their ids, and the limits on the number of streams.
#[derive(Debug)]
pub(super) struct Streams {
    open: Mutex<HashMap<Box<str>, Stream>>,
    limits: SessionLimits,
}

#[derive(Debug)]
struct Stream {
    owner: Option<String>,
    holder: Holder,
    sender: Sender,
}

/// Adds messages of the client to the queue of a stream.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    messages: mpsc::Sender<Received>,
    /// A semaphore with one permit for each byte that may wait in the queue.
    capacity: Arc<Semaphore>,
}

/// A message of the client that waits in the queue of its stream.
#[derive(Debug)]
pub(super) struct Received {
    caller: Caller,
    message: Bytes,
    _capacity: OwnedSemaphorePermit,
    /// Counts the message toward `in_flight_bytes_max`.
    _bytes: Option<Share>,
}

/// An open stream. Dropping this value ends the stream.
#[derive(Debug)]
pub(super) struct OpenStream {
    id: Box<str>,
    messages: mpsc::Receiver<Received>,
    streams: Arc<Streams>,
}

/// The reason why a stream rejects a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The stream has ended.
    Ended,
    /// The queue is full, because the client sends messages faster than it reads answers.
    Full,
}

impl Streams {
    /// Returns an empty table of streams with these limits.
    pub(super) fn new(limits: SessionLimits) -> Self {
        Self { open: Mutex::default(), limits }
    }

    /// Opens a stream for `caller`.
    ///
    /// # Errors
    /// Returns an error if the server or this caller has too many open streams.
    pub(super) fn open(self: &Arc<Self>, caller: &Caller) -> Result<OpenStream, NoCapacity> {
        let (owner, holder) = (caller.principal(), caller.holder());
        let id = unguessable_id();
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES_MAX);
        let capacity = Arc::new(Semaphore::new(WAITING_BYTES_MAX as usize));
        let sender = Sender { messages: sender, capacity };
        let mut open = self.lock();
        let held = || open.values().filter(|stream| stream.holder == holder).count();
        if open.len() >= self.limits.max || self.limits.quota(&holder).is_some_and(|quota| held() >= quota) {
            return Err(NoCapacity);
        }
        open.insert(id.clone(), Stream { owner, holder, sender });
        drop(open);
        Ok(OpenStream { id, messages, streams: self.clone() })
    }

    /// Returns the sender for the stream `id`. Returns `None` if `owner` has no such stream.
    pub(super) fn find(&self, id: &str, owner: Option<&str>) -> Option<Sender> {
        let open = self.lock();
        let stream = open.get(id).filter(|stream| stream.owner.as_deref() == owner)?;
        Some(stream.sender.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Stream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Adds a message to the queue. A message larger than [`WAITING_BYTES_MAX`] takes all permits, so no
    /// other message can wait at the same time. `bytes` is the message's share of `in_flight_bytes_max`.
    ///
    /// # Errors
    /// Returns an error if the queue is full or the stream has ended.
    pub(super) fn send(&self, caller: Caller, message: Bytes, bytes: Option<Share>) -> Result<(), Refused> {
        let permits = u32::try_from(message.len()).unwrap_or(WAITING_BYTES_MAX).min(WAITING_BYTES_MAX);
        let capacity = self.capacity.clone().try_acquire_many_owned(permits).map_err(|_| Refused::Full)?;
        let received = Received { caller, message, _capacity: capacity, _bytes: bytes };
        self.messages.try_send(received).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Full,
            mpsc::error::TrySendError::Closed(_) => Refused::Ended,
        })
    }
}

impl Received {
    /// Returns the message and its caller. The message then no longer counts toward the limits of the queue
    /// and of `in_flight_bytes_max`. When the server handles a request of the message, the request counts
    /// toward the second limit.
    pub(super) fn into_message(self) -> (Caller, Bytes) {
        (self.caller, self.message)
    }
}

impl OpenStream {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the next message.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(super) async fn receive(&mut self) -> Option<Received> {
        self.messages.recv().await
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.id);
    }
}

/// Maximum number of messages that wait in a stream. Messages wait only while the client does not read its
/// stream.
const WAITING_MESSAGES_MAX: usize = 256;

/// Maximum number of bytes that wait in a stream. A larger message may wait if no other message waits.
const WAITING_BYTES_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn open() -> (Sender, OpenStream) {
        let limits =
            SessionLimits { idle: Duration::from_secs(1), max: 1, per_principal_max: 1, per_address_max: 1 };
        let streams = Arc::new(Streams::new(limits));
        let stream = streams.open(&Caller::Local).unwrap();
        (streams.find(stream.id(), None).unwrap(), stream)
    }

    /// Regression test: the server stored 8 MiB of messages in a stream that no client read.
    #[tokio::test]
    async fn unread_stream_queues_at_most_1_mib() {
        let (sender, mut stream) = open();
        let send = |bytes: usize| sender.send(Caller::Local, vec![b' '; bytes].into(), None);
        for _ in 0..4 {
            send(256 << 10).unwrap();
        }
        assert_eq!(send(1), Err(Refused::Full));
        // A message that a handler processes does not count as queued.
        let (_, message) = stream.receive().await.unwrap().into_message();
        send(message.len()).unwrap();
        assert_eq!(send(1), Err(Refused::Full));
    }

    #[tokio::test]
    async fn message_over_1_mib_is_queued_only_if_queue_is_empty() {
        let (sender, mut stream) = open();
        let send = |bytes: usize| sender.send(Caller::Local, vec![b' '; bytes].into(), None);
        send(1).unwrap();
        assert_eq!(send(4 << 20), Err(Refused::Full));
        drop(stream.receive().await);
        send(4 << 20).unwrap();
        assert_eq!(send(1), Err(Refused::Full));
        drop(stream.receive().await);
        send(1).unwrap();
    }
}
