//! An answer that takes time, and what is said before it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::Status;

/// A request that is being handled. Dropping it gives the request up.
pub(crate) struct Exchange {
    answer: Option<Pin<Box<dyn Future<Output = (Vec<u8>, Status)> + Send>>>,
    /// What the answer was, while messages before it have not been taken.
    answered: Option<(Vec<u8>, Status)>,
    messages: Option<mpsc::Receiver<Vec<u8>>>,
}

/// A message to the client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A notification or a request of the server.
    Message(Vec<u8>),
    /// The answer: the last message.
    Answer(Vec<u8>, Status),
}

impl Exchange {
    pub(crate) fn new(
        answer: impl Future<Output = (Vec<u8>, Status)> + Send + 'static,
        messages: Option<mpsc::Receiver<Vec<u8>>>,
    ) -> Self {
        Self { answer: Some(Box::pin(answer)), answered: None, messages }
    }

    /// The next message; `None` after the answer.
    ///
    /// # Cancel safety
    /// No message is lost.
    pub(crate) async fn next(&mut self) -> Option<Outgoing> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        if let Some(answer) = &mut self.answer
            && let Poll::Ready(answered) = answer.as_mut().poll(cx)
        {
            // With the handler go its senders: the messages come to an end.
            self.answer = None;
            self.answered = Some(answered);
        }
        if let Some(messages) = &mut self.messages {
            match messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => return Poll::Ready(Some(Outgoing::Message(message))),
                Poll::Ready(None) => self.messages = None,
                // A clone of the context may live on elsewhere; after the answer nobody listens to it.
                Poll::Pending if self.answered.is_some() => self.messages = None,
                Poll::Pending => return Poll::Pending,
            }
        }
        match (self.answered.take(), &self.answer) {
            (Some((octets, status)), _) => Poll::Ready(Some(Outgoing::Answer(octets, status))),
            (None, None) => Poll::Ready(None),
            (None, Some(_)) => Poll::Pending,
        }
    }
}
