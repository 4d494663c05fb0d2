//! What a subscription tells its client. Most of the time that is nothing, to ten thousand clients: so nothing is kept but
//! what the next message needs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thruway_mcp::schema::RequestId;

use super::modern;
use crate::server::Subscription;

/// The messages of a subscription, which end only by being dropped.
pub(crate) struct Telling {
    /// The message that comes first.
    acknowledgement: Option<Vec<u8>>,
    next: Next,
}

/// The next message, and what those after it are made of.
type Next = Pin<Box<dyn Future<Output = (Vec<u8>, Subscription, RequestId)> + Send>>;

impl Telling {
    /// `id` is that of the request, by which the subscription is known.
    pub(super) fn new(acknowledgement: Vec<u8>, subscription: Subscription, id: RequestId) -> Self {
        Self { acknowledgement: Some(acknowledgement), next: next(subscription, id) }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        if let Some(acknowledgement) = self.acknowledgement.take() {
            return Poll::Ready(acknowledgement);
        }
        let (message, subscription, id) = ready!(self.next.as_mut().poll(cx));
        self.next = next(subscription, id);
        Poll::Ready(message)
    }
}

fn next(subscription: Subscription, id: RequestId) -> Next {
    Box::pin(async move {
        let change = subscription.next().await;
        (modern::notification(&change, Some(&id)), subscription, id)
    })
}
