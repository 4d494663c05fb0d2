//! Requests that are answered later, and the messages before their answers.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use super::outgoing::{InterimMessage, Outgoing, Status};
use super::subscription_stream::SubscriptionStream;
use crate::shares::Share;

/// A request in progress. Dropping the exchange cancels the request.
pub struct Exchange {
    source: Source,
    /// Counts the request toward `in_flight_bytes_max` until the exchange is dropped.
    _bytes: Option<Share>,
}

enum Source {
    Handler(Handling),
    /// A request that the backend has not started yet.
    Preparing(Preparing),
    Subscription(SubscriptionStream),
}

/// The preparation of a request, and the messages that the backend sends meanwhile.
struct Preparing {
    source: Pin<Box<dyn Future<Output = Source> + Send>>,
    /// The result of `source`, which waits here until all earlier messages were taken.
    prepared: Option<Box<Source>>,
    messages: Option<mpsc::Receiver<InterimMessage>>,
}

/// A running handler, and the messages that it sends before its answer.
struct Handling {
    answer: Option<Pin<Box<dyn Future<Output = Answered> + Send>>>,
    /// The answer of the finished handler, which waits here until all earlier messages were taken.
    answered: Option<Answered>,
    messages: Option<mpsc::Receiver<InterimMessage>>,
    /// Called with the answer.
    observe: Option<Observe>,
}

/// A function that the exchange calls with the answer.
type Observe = Box<dyn FnOnce(&[u8]) + Send>;

/// A function that replaces the answer.
type Change = Box<dyn FnOnce(Answered) -> Pin<Box<dyn Future<Output = Answered> + Send>> + Send>;

/// An answer with its status (for transports that have status codes).
pub(super) type Answered = (Vec<u8>, Status);

impl Exchange {
    /// Returns an exchange that runs the future `answer` and forwards `messages`. The answer comes after all
    /// messages.
    pub fn new(
        answer: impl Future<Output = Answered> + Send + 'static,
        messages: Option<mpsc::Receiver<InterimMessage>>,
    ) -> Self {
        Self::of(Source::Handler(Handling {
            answer: Some(Box::pin(answer)),
            answered: None,
            messages,
            observe: None,
        }))
    }

    /// Returns the exchange of a subscription, which has messages but no answer. The caller sends the
    /// answer.
    pub(super) const fn subscription(subscription_stream: SubscriptionStream) -> Self {
        Self::of(Source::Subscription(subscription_stream))
    }

    /// Returns the exchange of a subscription that the backend must start first. If this fails, the exchange
    /// answers with the error.
    pub(super) fn prepared(
        subscription_stream: impl Future<Output = Result<SubscriptionStream, Answered>> + Send + 'static,
    ) -> Self {
        Self::of(Source::Preparing(Preparing::new(None, async move {
            match subscription_stream.await {
                Ok(subscription_stream) => Source::Subscription(subscription_stream),
                Err(answered) => Source::Handler(Handling::answered(answered)),
            }
        })))
    }

    /// Returns an exchange that first waits for another exchange or for an answer. Forwards `messages` meanwhile.
    pub(super) fn deferred(
        messages: Option<mpsc::Receiver<InterimMessage>>,
        exchange: impl Future<Output = Result<Self, Answered>> + Send + 'static,
    ) -> Self {
        Self::of(Source::Preparing(Preparing::new(messages, async move {
            match exchange.await {
                Ok(exchange) => exchange.source,
                Err(answered) => Source::Handler(Handling::answered(answered)),
            }
        })))
    }

    const fn of(source: Source) -> Self {
        Self { source, _bytes: None }
    }

    /// Keeps `bytes`, the request's share of `in_flight_bytes_max`, until the exchange is dropped.
    pub(super) fn holding(self, bytes: Option<Share>) -> Self {
        Self { _bytes: bytes, ..self }
    }

    /// Calls `observe` with the answer when the answer is known. Functions from earlier calls of this method also
    /// get the answer. If the request ends without an answer, drops
    /// `observe`. This happens if the client cancels the request or disconnects. A subscription has no
    /// answer.
    #[must_use]
    pub fn on_answer(self, observe: impl FnOnce(&[u8]) + Send + 'static) -> Self {
        Self { source: self.source.observed(Box::new(observe)), ..self }
    }

    /// Lets `change` replace the answer. The client waits for the future of `change`. Earlier messages do not wait. A
    /// subscription has no answer.
    #[must_use]
    pub fn then<F>(self, change: impl FnOnce(Vec<u8>, Status) -> F + Send + 'static) -> Self
    where
        F: Future<Output = (Vec<u8>, Status)> + Send + 'static,
    {
        let change = move |(answer, status): Answered| -> Pin<Box<dyn Future<Output = Answered> + Send>> {
            Box::pin(change(answer, status))
        };
        Self { source: self.source.changed(Box::new(change)), ..self }
    }

    /// Waits for the answer, and discards all earlier messages. Returns `None` if the request has no answer.
    pub async fn answer(mut self) -> Option<(Vec<u8>, Status)> {
        loop {
            if let Outgoing::Answer(answer, status) = self.next().await? {
                return Some((answer, status));
            }
        }
    }

    /// Returns the next message for the client. The last message is the answer. After the answer, returns
    /// `None`.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(crate) async fn next(&mut self) -> Option<Outgoing> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Waits for the future `sending`, and polls the handler meanwhile. So the handler's timeout ends a
    /// request even if the client does not read.
    pub(crate) async fn poll_during<T>(&mut self, sending: impl Future<Output = T>) -> T {
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
                Source::Preparing(preparing) => match ready!(preparing.poll_next(cx)) {
                    Ok(source) => {
                        self.source = source;
                        continue;
                    }
                    Err(message) => Poll::Ready(Some(Outgoing::InterimMessage(message))),
                },
                Source::Handler(handling) => handling.poll_next(cx),
                Source::Subscription(subscription_stream) => subscription_stream
                    .poll_next(cx)
                    .map(|message| Some(Outgoing::InterimMessage(InterimMessage::Message(message?)))),
            };
        }
    }
}

impl Source {
    fn observed(self, observe: Observe) -> Self {
        match self {
            Self::Handler(handling) => Self::Handler(handling.observed(observe)),
            Self::Preparing(Preparing { source, messages, .. }) => {
                Self::Preparing(Preparing::new(messages, async move { source.await.observed(observe) }))
            }
            subscription @ Self::Subscription(_) => subscription,
        }
    }

    fn changed(self, change: Change) -> Self {
        match self {
            Self::Handler(handling) => Self::Handler(handling.changed(change)),
            Self::Preparing(Preparing { source, messages, .. }) => {
                Self::Preparing(Preparing::new(messages, async move { source.await.changed(change) }))
            }
            subscription @ Self::Subscription(_) => subscription,
        }
    }
}

impl Preparing {
    fn new(
        messages: Option<mpsc::Receiver<InterimMessage>>,
        source: impl Future<Output = Source> + Send + 'static,
    ) -> Self {
        Self { source: Box::pin(source), prepared: None, messages }
    }

    /// Returns the next message as `Err`. After all messages, returns the prepared request.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Source, InterimMessage>> {
        if self.prepared.is_none()
            && let Poll::Ready(source) = self.source.as_mut().poll(cx)
        {
            self.prepared = Some(Box::new(source));
        }
        if let Some(messages) = &mut self.messages {
            let message = match &self.prepared {
                Some(_) => messages.try_recv().ok(),
                None => ready!(messages.poll_recv(cx)),
            };
            match message {
                Some(message) => return Poll::Ready(Err(message)),
                None => self.messages = None,
            }
        }
        self.prepared.take().map_or(Poll::Pending, |source| Poll::Ready(Ok(*source)))
    }
}

impl Handling {
    const fn answered(answered: Answered) -> Self {
        Self { answer: None, answered: Some(answered), messages: None, observe: None }
    }

    fn observed(mut self, observe: Observe) -> Self {
        match &self.answered {
            Some((answer, _)) => observe(answer),
            None => {
                self.observe = Some(match self.observe.take() {
                    None => observe,
                    Some(first) => Box::new(move |answer| {
                        first(answer);
                        observe(answer);
                    }),
                });
            }
        }
        self
    }

    fn changed(mut self, change: Change) -> Self {
        if let Some(answered) = self.answered.take() {
            self.answer = Some(change(answered));
        } else if let Some(answer) = self.answer.take() {
            self.answer = Some(Box::pin(async move {
                let answered = answer.await;
                change(answered).await
            }));
        }
        self
    }

    /// Polls the handler, and stores its answer when the handler has finished.
    fn poll_answer(&mut self, cx: &mut Context<'_>) {
        if let Some(answer) = &mut self.answer
            && let Poll::Ready(answered) = answer.as_mut().poll(cx)
        {
            // Dropping the handler also drops the handler's senders, so the message channel closes.
            self.answer = None;
            if let Some(observe) = self.observe.take() {
                observe(&answered.0);
            }
            self.answered = Some(answered);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        self.poll_answer(cx);
        if let Some(messages) = &mut self.messages {
            // When the answer is ready, all earlier messages are in the channel. `try_recv` takes them even
            // if the tokio task has used up its budget, but `poll_recv` would return `Pending`. Do not wait
            // for the end of the channel, because a clone of the handler's context may keep it open.
            let said = match &self.answered {
                Some(_) => messages.try_recv().ok(),
                None => ready!(messages.poll_recv(cx)),
            };
            match said {
                Some(said) => return Poll::Ready(Some(Outgoing::InterimMessage(said))),
                None => self.messages = None,
            }
        }
        match (self.answered.take(), &self.answer) {
            (Some((bytes, status)), _) => Poll::Ready(Some(Outgoing::Answer(bytes, status))),
            (None, None) => Poll::Ready(None),
            (None, Some(_)) => Poll::Pending,
        }
    }
}
