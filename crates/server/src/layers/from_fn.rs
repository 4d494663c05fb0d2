//! Layers from functions.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Layer;
use crate::extractors::{Arguments, Extraction, ViaOwned, nested};
use crate::handler::{Answer, Handler, Later};
use crate::request::{OwnedRequest, Request};
use crate::response::{IntoResponse, Response};

/// Creates a layer from an `async` function. The arguments of the function are extractors that do not read the
/// body, then an [`OwnedRequest`], and then [`Next`]. The function can change the request, respond itself, or
/// call [`Next::run`] and change the response.
///
/// Such a layer copies the head of each request, and also a body that has completely arrived. Use
/// [`from_sync_fn`] for a layer that need not wait.
///
/// ```
/// use thruway_server::layers::{Next, from_fn};
/// use thruway_server::{OwnedRequest, Response, Router};
///
/// async fn time(request: OwnedRequest, next: Next) -> Response {
///     let clock = request.worker().clock().clone();
///     let start = clock.now_exact();
///     let response = next.run(request).await;
///     let micros = (clock.now_exact() - start).as_micros();
///     response.with_field("Server-Timing", format!("handler;dur={}.{:03}", micros / 1000, micros % 1000))
/// }
///
/// let router = Router::new().get("/", || "hello\n").layer(from_fn(time));
/// # let _ = router;
/// ```
pub const fn from_fn<F, L>(function: F) -> FromFn<F, (), L>
where
    F: MiddlewareFunction<L>,
    L: Arguments<(), ViaOwned>,
{
    from_fn_with_state((), function)
}

/// Like [`from_fn`], but the function can have arguments of the type
/// [`State`](crate::extractors::State).
pub const fn from_fn_with_state<F, S, L>(state: S, function: F) -> FromFn<F, S, L>
where
    F: MiddlewareFunction<L>,
    S: Send + Sync + 'static,
    L: Arguments<S, ViaOwned>,
{
    FromFn { function, state, arguments: PhantomData }
}

/// Creates a layer from a function that does not wait. The function gets the request and the inner handler. It
/// can change the extensions of the request, respond itself, or call the inner handler and
/// [change](Answer::map) its response. Such a layer needs no copy and no allocation.
///
/// ```
/// use thruway_server::layers::from_sync_fn;
/// use thruway_server::{Answer, Response, Router, StatusCode};
///
/// let guard = from_sync_fn(|request, next| match request.field("X-Api-Key") {
///     Some(key) if key.as_bytes() == b"secret" => next.handle(request),
///     _ => Answer::Now(Response::new(StatusCode::UNAUTHORIZED)),
/// });
/// let router = Router::new().get("/", || "hello\n").layer(guard);
/// # let _ = router;
/// ```
pub const fn from_sync_fn<F>(function: F) -> FromSyncFn<F>
where
    F: for<'a> Fn(&mut Request<'a>, &'a dyn Handler) -> Answer + Send + Sync + 'static,
{
    FromSyncFn(function)
}

/// A layer from an `async` function: see [`from_fn`].
#[derive(Clone, Debug)]
pub struct FromFn<F, S, L> {
    function: F,
    state: S,
    arguments: PhantomData<fn() -> L>,
}

/// A layer from a function that does not wait: see [`from_sync_fn`].
#[derive(Clone, Copy, Debug)]
pub struct FromSyncFn<F>(F);

/// The handlers inside of a layer.
#[derive(Clone)]
pub struct Next(Arc<dyn Handler>);

impl Next {
    /// Passes the request to the inner handler, and returns its response.
    pub async fn run(self, request: OwnedRequest) -> Response {
        match request.forward_to(&*self.0) {
            Answer::Now(response) => response,
            Answer::Later(later) => later.await,
        }
    }
}

impl<F> Layer for FromSyncFn<F>
where
    F: for<'a> Fn(&mut Request<'a>, &'a dyn Handler) -> Answer + Send + Sync + 'static,
{
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithSyncFn { function: self.0, inner })
    }
}

struct WithSyncFn<F> {
    function: F,
    inner: Arc<dyn Handler>,
}

impl<F> Handler for WithSyncFn<F>
where
    F: for<'a> Fn(&mut Request<'a>, &'a dyn Handler) -> Answer + Send + Sync + 'static,
{
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        (self.function)(request, &*self.inner)
    }
}

/// A function of the arguments `L`, of which the last is the request, and of [`Next`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a layer",
    note = "write `async fn(OwnedRequest, Next) -> impl IntoResponse`; before the request, it can have up to \
            four extractors that do not read the body"
)]
pub trait MiddlewareFunction<L>: Send + Sync + 'static {
    /// Calls the function.
    fn call(&self, arguments: L, next: Next) -> Later;
}

macro_rules! middleware {
    ($($argument:ident)*; $request:ident) => {
        impl<F, T, $($argument),*> MiddlewareFunction<nested!($($argument)* OwnedRequest)> for F
        where
            F: Fn($($argument,)* OwnedRequest, Next) -> T + Send + Sync + 'static,
            T: Future<Output: IntoResponse> + 'static,
        {
            #[allow(non_snake_case, reason = "each argument has the name of its type")]
            fn call(&self, nested!($($argument)* $request): nested!($($argument)* OwnedRequest), next: Next) -> Later {
                let future = self($($argument,)* $request, next);
                Box::pin(async move { future.await.into_response() })
            }
        }
    };
}

middleware!(; request);
middleware!(A; request);
middleware!(A B; request);
middleware!(A B C; request);
middleware!(A B C D; request);

impl<F, S, L> Layer for FromFn<F, S, L>
where
    F: MiddlewareFunction<L>,
    S: Send + Sync + 'static,
    L: Arguments<S, ViaOwned>,
{
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        let Self { function, state, arguments } = self;
        Arc::new(WithFn { function: Arc::new(function), state, inner, arguments })
    }
}

struct WithFn<F, S, L> {
    function: Arc<F>,
    state: S,
    inner: Arc<dyn Handler>,
    arguments: PhantomData<fn() -> L>,
}

impl<F, S, L> Handler for WithFn<F, S, L>
where
    F: MiddlewareFunction<L>,
    S: Send + Sync + 'static,
    L: Arguments<S, ViaOwned>,
{
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let next = Next(self.inner.clone());
        match L::extract(request, &self.state) {
            Extraction::Now(Ok(arguments)) => Answer::Later(self.function.call(arguments, next)),
            Extraction::Now(Err(response)) => Answer::Now(response),
            Extraction::Later(later) => {
                let function = self.function.clone();
                Answer::later(async move {
                    match later.await {
                        Ok(arguments) => function.call(arguments, next).await,
                        Err(response) => response,
                    }
                })
            }
        }
    }
}
