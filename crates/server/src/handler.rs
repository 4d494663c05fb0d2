//! Handlers of requests.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use thruway_message::RequestHead;

use crate::request::{CONTENT_BYTES_MAX, Incoming, OwnedRequest, Rejection, Request};
use crate::response::{InterimSlot, IntoResponse, Response};

/// Handles requests. This is the only extension point of the server: routers, layers and adapters are
/// handlers too.
///
/// Functions and closures become handlers with [`IntoHandler`]. Implement this trait to choose between an
/// immediate and a later response for each request.
pub trait Handler: Send + Sync + 'static {
    /// Returns a response, or a future of it. A panic results in a 500 response and does not affect other
    /// requests.
    ///
    /// The request is passed by reference, because moving it would take more time than finding its route. To
    /// keep it, call [`take_owned`](Request::take_owned).
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer;
}

/// An immediate or later response.
pub enum Answer {
    /// A response that is available at once.
    Now(Response),
    /// A future of the response. It runs on the thread of the connection and need not be `Send`. It is
    /// dropped if the client leaves.
    Later(Later),
}

/// A future response.
pub type Later = Pin<Box<dyn Future<Output = Response>>>;

impl Answer {
    /// Creates an answer with the response of `future`.
    pub fn later(future: impl Future<Output = Response> + 'static) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Applies `change` to the response when it is available.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Response) -> Response + 'static) -> Self {
        match self {
            Self::Now(response) => Self::Now(change(response)),
            Self::Later(later) => Self::later(async move { change(later.await) }),
        }
    }
}

impl Handler for Arc<dyn Handler> {
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        (**self).handle(request)
    }
}

/// Conversion into a handler.
///
/// | value | call |
/// |---|---|
/// | `Fn() -> impl IntoResponse` | at once; discards the body |
/// | `Fn(&Request) -> impl IntoResponse` | with the complete body of at most [`CONTENT_BYTES_MAX`] |
/// | `Fn(OwnedRequest) -> impl Future<Output: IntoResponse>` | at once; reads the body as it arrives |
/// | `Fn() -> impl Future<Output: IntoResponse>` | at once; discards the body |
/// | a function or `async` function of 1 to 8 [extractors](crate::extractors) | when the arguments were read |
/// | [`Handler`] | unchanged |
///
/// A closure must name the types of its arguments. `Marker` distinguishes these kinds of handlers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is a function without arguments, of a `&Request`, of an `OwnedRequest`, or of extractors",
    note = "only the last extractor can read the body; `State` needs `Router::with_state`",
    note = "a closure must name the types of its arguments, and its result must implement `IntoResponse`"
)]
pub trait IntoHandler<Marker> {
    /// Converts the value into a handler.
    fn into_handler(self) -> Arc<dyn Handler>;
}

impl<H: Handler> IntoHandler<()> for H {
    fn into_handler(self) -> Arc<dyn Handler> {
        Arc::new(self)
    }
}

impl<F, R> IntoHandler<fn() -> R> for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: IntoResponse,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        Arc::new(Constant(move || self().into_response()))
    }
}

impl<F, R> IntoHandler<fn(&Request<'_>) -> R> for F
where
    F: Fn(&Request<'_>) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        Arc::new(with_whole_content(CONTENT_BYTES_MAX, self))
    }
}

impl<F, T, R> IntoHandler<fn(OwnedRequest) -> (T, R)> for F
where
    F: Fn(OwnedRequest) -> T + Send + Sync + 'static,
    T: Future<Output = R> + 'static,
    R: IntoResponse,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        Arc::new(Asynchronous(self))
    }
}

/// Returns a handler that calls `answer` when the complete request body has arrived. If the body exceeds
/// `limit_bytes`, the request gets 413.
pub fn with_whole_content<F, R>(limit_bytes: usize, answer: F) -> impl Handler
where
    F: Fn(&Request<'_>) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    WithWholeContent { limit_bytes, answer: Arc::new(answer) }
}

/// Returns a handler that calls `answer` with `state` and the request. Use it if several handlers share
/// state, such as a store or keys.
///
/// ```
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// # use thruway_server::{Request, Router, with_state};
/// let visits = Arc::new(AtomicU64::new(0));
/// let router = Router::new().get("/", with_state(&visits, |visits: &AtomicU64, _: &Request| {
///     format!("visit {}", visits.fetch_add(1, Ordering::Relaxed))
/// }));
/// ```
///
/// | `answer` | call |
/// |---|---|
/// | `Fn(&S, &Request) -> impl IntoResponse` | with the complete body of at most [`CONTENT_BYTES_MAX`] |
/// | `Fn(Arc<S>, OwnedRequest) -> impl Future<Output: IntoResponse>` | at once; reads the body as it arrives |
pub fn with_state<S, F>(state: &Arc<S>, answer: F) -> WithState<S, F> {
    WithState { state: state.clone(), answer }
}

/// A function that becomes a handler together with its state: see [`with_state`].
#[derive(Debug)]
pub struct WithState<S, F> {
    state: Arc<S>,
    answer: F,
}

impl<S, F, R> IntoHandler<fn(&S, &Request<'_>) -> R> for WithState<S, F>
where
    S: Send + Sync + 'static,
    F: Fn(&S, &Request<'_>) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        let Self { state, answer } = self;
        (move |request: &Request<'_>| answer(&state, request)).into_handler()
    }
}

impl<S, F, T, R> IntoHandler<fn(Arc<S>, OwnedRequest) -> (T, R)> for WithState<S, F>
where
    S: Send + Sync + 'static,
    F: Fn(Arc<S>, OwnedRequest) -> T + Send + Sync + 'static,
    T: Future<Output = R> + 'static,
    R: IntoResponse,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        let Self { state, answer } = self;
        (move |request: OwnedRequest| answer(state.clone(), request)).into_handler()
    }
}

struct Constant<F>(F);

impl<F: Fn() -> Response + Send + Sync + 'static> Handler for Constant<F> {
    #[inline]
    fn handle<'a>(&'a self, _: &mut Request<'a>) -> Answer {
        Answer::Now((self.0)())
    }
}

struct WithWholeContent<F> {
    limit_bytes: usize,
    answer: Arc<F>,
}

impl<F, R> Handler for WithWholeContent<F>
where
    F: Fn(&Request<'_>) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if request.has_whole_content() && request.content().len() <= self.limit_bytes {
            return Answer::Now((self.answer)(request).into_response());
        }
        let (answer, limit_bytes) = (self.answer.clone(), self.limit_bytes);
        let mut request = request.take_owned();
        Answer::later(async move {
            match request.content().collect(limit_bytes).await {
                Ok(content) => answer(&request.as_request(&request.head(), &content)).into_response(),
                Err(error) => Rejection::from(error).into_response(),
            }
        })
    }
}

struct Asynchronous<F>(F);

impl<F, T, R> Handler for Asynchronous<F>
where
    F: Fn(OwnedRequest) -> T + Send + Sync + 'static,
    T: Future<Output = R> + 'static,
    R: IntoResponse,
{
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let future = (self.0)(request.take_owned());
        Answer::later(async move { future.await.into_response() })
    }
}

impl Request<'_> {
    /// Lets `handler` answer the request. `handler` need not live longer than this call. Use it for handlers
    /// that are replaced while the server runs.
    pub fn forward_to(&mut self, handler: &dyn Handler) -> Answer {
        self.forward_with_head(self.head(), handler)
    }

    /// Lets `handler` answer the request with another head. `handler` need not live longer than this call.
    /// Use it in handlers that add or remove headers. It must not change headers that frame the body, such as
    /// `Content-Length`.
    pub fn forward_with_head(&mut self, head: &RequestHead<'_>, handler: &dyn Handler) -> Answer {
        self.with_head(head, |request| handler.handle(request))
    }

    /// Lets `handler` answer another request of the same client, for example a question about this request.
    /// The other request has the head `head` and no body, and asks for no upgrade. The client gets none of its
    /// interim responses. This request stays unchanged.
    pub fn ask(&mut self, head: &RequestHead<'_>, handler: &dyn Handler) -> Answer {
        let slot = InterimSlot::of(self.worker());
        let extensions = self.extensions().clone();
        let answer = slot.discard(|| handler.handle(&mut self.as_question(head)));
        *self.extensions_mut() = extensions;
        match answer {
            Answer::Now(response) => Answer::Now(response),
            Answer::Later(mut later) => {
                Answer::later(poll_fn(move |cx| slot.discard(|| later.as_mut().poll(cx))))
            }
        }
    }

    /// Lets `handler` answer the request with another head and the whole body `content`. The headers in `head`
    /// must not frame the body. `handler` need not live longer than this call.
    pub fn forward_with_content(
        &mut self,
        head: &RequestHead<'_>,
        content: &[u8],
        handler: &dyn Handler,
    ) -> Answer {
        handler.handle(&mut self.with_parts(head, Incoming::Whole(content)))
    }
}

impl OwnedRequest {
    /// Lets `handler` answer the request. Use it in handlers that wait before they pass an owned request to
    /// another handler.
    pub fn forward_to(mut self, handler: &dyn Handler) -> Answer {
        let content = self.take_content();
        let whole = content.as_whole().cloned();
        let head = self.head();
        let mut request = self.as_request(&head, whole.as_deref().unwrap_or_default());
        if whole.is_none() {
            request.set_arriving(content);
        }
        handler.handle(&mut request)
    }
}
