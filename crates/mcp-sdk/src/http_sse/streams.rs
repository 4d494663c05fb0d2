//! The streams that are open, and what waits to be handled in them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::authorization::Caller;
use crate::session::{Holder, NoCapacity, SessionLimits, unguessable_id};

/// The streams that are open, by their ids.
#[derive(Debug)]
pub(super) struct Streams {
    open: Mutex<HashMap<Box<str>, Stream>>,
    limits: SessionLimits,
    /// Maximum number of bytes that wait to be handled in one stream.
    waiting_bytes_max: usize,
}

#[derive(Debug)]
struct Stream {
    owner: Option<String>,
    holder: Holder,
    sender: Sender,
}

/// Sends messages to the one who handles a stream.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    messages: mpsc::Sender<Received>,
    /// A permit for each octet that may wait.
    room: Arc<Semaphore>,
}

/// A message of the client.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) caller: Caller,
    pub(super) message: Bytes,
    _room: OwnedSemaphorePermit,
}

/// An open stream, for the one who handles it: with this, it ends.
#[derive(Debug)]
pub(super) struct OpenStream {
    id: Box<str>,
    messages: mpsc::Receiver<Received>,
    streams: Arc<Streams>,
}

/// Why a message is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The stream has ended.
    Ended,
    /// Too much waits already: the client sends faster than it reads.
    Full,
}

impl Streams {
    /// Streams of a server with these limits, whose messages have at most `message_bytes_max` bytes.
    pub(super) fn new(limits: SessionLimits, message_bytes_max: usize) -> Self {
        let waiting_bytes_max = message_bytes_max.saturating_mul(2).clamp(1, Semaphore::MAX_PERMITS);
        Self { open: Mutex::default(), limits, waiting_bytes_max }
    }

    /// Opens a stream of `owner`'s that counts against `holder`.
    ///
    /// # Errors
    /// There are too many, in all or of this holder.
    pub(super) fn open(
        self: &Arc<Self>,
        owner: Option<String>,
        holder: Holder,
    ) -> Result<OpenStream, NoCapacity> {
        let id = unguessable_id();
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES_MAX);
        let sender = Sender { messages: sender, room: Arc::new(Semaphore::new(self.waiting_bytes_max)) };
        let mut open = self.lock();
        let held = || open.values().filter(|stream| stream.holder == holder).count();
        if open.len() >= self.limits.max || self.limits.quota(&holder).is_some_and(|quota| held() >= quota) {
            return Err(NoCapacity);
        }
        open.insert(id.clone(), Stream { owner, holder, sender });
        drop(open);
        Ok(OpenStream { id, messages, streams: self.clone() })
    }

    /// Where messages of `owner`'s stream `id` go, if there is such a one.
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
    /// Lets a message wait until it is handled.
    ///
    /// # Errors
    /// It will not be.
    pub(super) fn send(&self, caller: Caller, message: Bytes) -> Result<(), Refused> {
        let octets = u32::try_from(message.len()).map_err(|_| Refused::Full)?;
        let room = self.room.clone().try_acquire_many_owned(octets).map_err(|_| Refused::Full)?;
        self.messages.try_send(Received { caller, message, _room: room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Full,
            mpsc::error::TrySendError::Closed(_) => Refused::Ended,
        })
    }
}

impl OpenStream {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn receive(&mut self) -> Option<Received> {
        self.messages.recv().await
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.id);
    }
}

/// How many messages of a stream wait to be handled. They do only while the client does not read its stream.
const WAITING_MESSAGES_MAX: usize = 256;
