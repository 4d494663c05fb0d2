//! Subscriptions to messages that other gateways publish.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Receives the messages of a channel. Dropping this value ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<SubscriptionEvent>,
}

/// A message, or the notice that messages may be lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubscriptionEvent {
    /// A published message.
    Message(Bytes),
    /// Messages may be lost, because the connection was lost or this subscriber was slow. The subscriber must
    /// read the state that the messages describe again.
    Gap,
}

impl Subscription {
    /// Waits for the next event. Returns `None` if the store is closed. The call is cancel safe.
    pub async fn next(&mut self) -> Option<SubscriptionEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(_)) => Some(SubscriptionEvent::Gap),
            Err(RecvError::Closed) => None,
        }
    }
}

/// The subscriptions of this process.
#[derive(Clone, Default, Debug)]
pub(crate) struct Channels {
    senders: Arc<Mutex<HashMap<String, Sender<SubscriptionEvent>>>>,
}

impl Channels {
    /// Adds a subscription.
    pub(crate) fn subscribe(&self, channel: &str) -> Subscription {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        let receiver = match senders.entry(channel.to_owned()) {
            Entry::Occupied(sender) => sender.get().subscribe(),
            Entry::Vacant(vacant) => vacant.insert(broadcast::channel(WAITING_MAX).0).subscribe(),
        };
        Subscription { receiver }
    }

    /// Sends a message to the subscriptions of a channel.
    pub(crate) fn deliver(&self, channel: &str, message: Bytes) {
        let is_small = message.len() <= MESSAGE_BYTES_MAX;
        self.send(
            channel,
            if is_small { SubscriptionEvent::Message(message) } else { SubscriptionEvent::Gap },
        );
    }

    /// Reports to the subscriptions of a channel that messages may be lost.
    pub(crate) fn deliver_gap(&self, channel: &str) {
        self.send(channel, SubscriptionEvent::Gap);
    }

    fn send(&self, channel: &str, event: SubscriptionEvent) {
        if let Some(sender) = self.lock().get(channel) {
            // Without subscribers, the event has no use.
            let _ = sender.send(event);
        }
    }

    /// Returns the channels with subscriptions.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut senders = self.lock();
        senders.retain(|_, sender| sender.receiver_count() > 0);
        senders.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Sender<SubscriptionEvent>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of messages that wait for a subscriber. A slower subscriber gets a gap.
const WAITING_MAX: usize = 256;

/// Maximum number of bytes of a message. Larger messages of other programs count as lost, so that a subscriber needs
/// at most 16 MiB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;
