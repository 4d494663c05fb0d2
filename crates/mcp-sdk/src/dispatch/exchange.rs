//! An answer that takes time, and what is said before it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use super::Status;

/// A request that is being handled. Dropping it gives the request up.
pub(crate) struct Exchange {
    answer: Option<Pin<Box<dyn Future<Output = Answered> + Send>>>,
    /// What the answer was, while messages before it have not been taken.
    answered: Option<Answered>,
    messages: Option<mpsc::Receiver<Vec<u8>>>,
}

/// An answer, and what it means for bindings.
type Answered = (Vec<u8>, Status);

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
        answer: impl Future<Output = Answered> + Send + 'static,
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
            // After the answer, what was said before it is all there; that the task has had its share of time (of which
            // `poll_recv` takes account) must not lose it. A clone of the context may live on elsewhere: nobody listens.
            let message = match &self.answered {
                Some(_) => messages.try_recv().ok(),
                None => ready!(messages.poll_recv(cx)),
            };
            match message {
                Some(message) => return Poll::Ready(Some(Outgoing::Message(message))),
                None => self.messages = None,
            }
        }
        match (self.answered.take(), &self.answer) {
            (Some((octets, status)), _) => Poll::Ready(Some(Outgoing::Answer(octets, status))),
            (None, None) => Poll::Ready(None),
            (None, Some(_)) => Poll::Pending,
        }
    }
}
