//! An answer that takes time, and what is said before it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use super::outgoing::{Outgoing, Said, Status};
use super::telling::Telling;
use crate::shares::Share;

/// A request that is being handled. Dropping it gives the request up.
pub struct Exchange {
    source: Source,
    /// The bytes of its parameters, as long as it is there.
    _bytes: Option<Share>,
}

enum Source {
    Handler(Handling),
    /// A subscription that does not stand yet.
    Preparing(Pin<Box<dyn Future<Output = Result<Telling, Answered>> + Send>>),
    Subscription(Telling),
}

/// A handler, and what it says.
struct Handling {
    answer: Option<Pin<Box<dyn Future<Output = Answered> + Send>>>,
    /// What the answer was, while what was said before it has not been taken.
    answered: Option<Answered>,
    messages: Option<mpsc::Receiver<Said>>,
}

/// An answer, and what it means for bindings.
pub(super) type Answered = (Vec<u8>, Status);

impl Exchange {
    /// Returns the exchange that sends `messages` until `answer` is ready, then the messages that are left,
    /// then the answer.
    pub fn new(
        answer: impl Future<Output = Answered> + Send + 'static,
        messages: Option<mpsc::Receiver<Said>>,
    ) -> Self {
        Self::of(Source::Handler(Handling { answer: Some(Box::pin(answer)), answered: None, messages }))
    }

    /// A subscription, which has no answer.
    pub(super) const fn subscription(telling: Telling) -> Self {
        Self::of(Source::Subscription(telling))
    }

    /// A subscription that has to be made ready, or is answered by an error.
    pub(super) fn prepared(
        telling: impl Future<Output = Result<Telling, Answered>> + Send + 'static,
    ) -> Self {
        Self::of(Source::Preparing(Box::pin(telling)))
    }

    const fn of(source: Source) -> Self {
        Self { source, _bytes: None }
    }

    /// Counts `bytes` as long as the request is handled.
    pub(super) fn holding(self, bytes: Option<Share>) -> Self {
        Self { _bytes: bytes, ..self }
    }

    /// What goes to the client next; `None` after the answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Outgoing> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Waits for `sending`, and lets the handler go on meanwhile: its timeout must end a request whose client
    /// does not read.
    pub(crate) async fn go_on_during<T>(&mut self, sending: impl Future<Output = T>) -> T {
        let mut sending = pin!(sending);
        poll_fn(|cx| {
            if let Source::Handler(handling) = &mut self.source {
                handling.poll_answer(cx);
            }
            sending.as_mut().poll(cx)
        })
        .await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        loop {
            return match &mut self.source {
                Source::Preparing(preparing) => {
                    self.source = match ready!(preparing.as_mut().poll(cx)) {
                        Ok(telling) => Source::Subscription(telling),
                        Err(answered) => Source::Handler(Handling::answered(answered)),
                    };
                    continue;
                }
                Source::Handler(handling) => handling.poll_next(cx),
                Source::Subscription(telling) => {
                    telling.poll_next(cx).map(|message| Some(Outgoing::Said(Said::Message(message))))
                }
            };
        }
    }
}

impl Handling {
    const fn answered(answered: Answered) -> Self {
        Self { answer: None, answered: Some(answered), messages: None }
    }

    /// Lets the handler go on, and notes its answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>) {
        if let Some(answer) = &mut self.answer
            && let Poll::Ready(answered) = answer.as_mut().poll(cx)
        {
            // With the handler go its senders: the messages come to an end.
            self.answer = None;
            self.answered = Some(answered);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        self.poll_answer(cx);
        if let Some(messages) = &mut self.messages {
            // After the answer, what was said before it is all there; that the task has had its share of time
            // (of which `poll_recv` takes account) must not lose it. A clone of the context may live on
            // elsewhere: nobody listens.
            let said = match &self.answered {
                Some(_) => messages.try_recv().ok(),
                None => ready!(messages.poll_recv(cx)),
            };
            match said {
                Some(said) => return Poll::Ready(Some(Outgoing::Said(said))),
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
