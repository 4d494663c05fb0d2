//! Functions of extractors as handlers: reads the arguments one after another, and calls the function.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Extraction, FromRequest, FromRequestParts, ViaParts, ViaRequest};
use crate::handler::{Answer, Handler, IntoHandler};
use crate::request::{OwnedRequest, Request, RequestContent};
use crate::response::{IntoResponse, Response};

/// The arguments of a handler as nested pairs: `(A, (B, (C, ())))`. Only the last argument may read the body.
/// `M` is the marker of its [`FromRequest`] implementation.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not arguments of a handler with the state `{S}`",
    note = "each argument must implement `FromRequestParts`, and the last one `FromRequest`"
)]
pub trait Arguments<S, M>: Sized + 'static {
    /// Reads the arguments. An error is the response to the client.
    fn extract(request: &mut Request<'_>, state: &S) -> Extraction<Self, Response>;
}

impl<S, A, M> Arguments<S, M> for (A, ())
where
    A: FromRequest<S, M> + 'static,
{
    #[inline]
    fn extract(request: &mut Request<'_>, state: &S) -> Extraction<Self, Response> {
        A::from_request(request, state).map_result(|result| match result {
            Ok(argument) => Ok((argument, ())),
            Err(rejection) => Err(rejection.into_response()),
        })
    }
}

impl<S, A, B, Others, M> Arguments<S, M> for (A, (B, Others))
where
    S: Clone + 'static,
    A: FromRequestParts<S> + 'static,
    (B, Others): Arguments<S, M>,
{
    #[inline]
    fn extract(request: &mut Request<'_>, state: &S) -> Extraction<Self, Response> {
        match A::from_request_parts(request, state) {
            Extraction::Now(Ok(argument)) => {
                <(B, Others)>::extract(request, state).map_result(|others| Ok((argument, others?)))
            }
            Extraction::Now(Err(rejection)) => Extraction::Now(Err(rejection.into_response())),
            Extraction::Later(later) => {
                let (mut request, state) = (request.take_owned(), state.clone());
                Extraction::later(async move {
                    let argument = later.await.map_err(IntoResponse::into_response)?;
                    let others = lend(&mut request, |request| <(B, Others)>::extract(request, &state));
                    Ok((argument, others.resolve().await?))
                })
            }
        }
    }
}

/// Marks a handler with extractors that returns its response at once.
#[derive(Debug)]
pub struct Now<T>(PhantomData<T>);

/// Marks an `async` handler without arguments, or with extractors.
#[derive(Debug)]
pub struct Later<T>(PhantomData<T>);

/// Conversion into a handler that uses the state `S`. All values that implement [`IntoHandler`] also
/// implement this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler with the state `{S}`",
    note = "a handler is a function or an `async` function. Its arguments are extractors",
    note = "only the last argument can read the body, and a closure must name the types of its arguments"
)]
pub trait IntoHandlerWithState<S, Marker> {
    /// Converts the value into a handler that uses `state`.
    fn into_handler_with_state(self, state: S) -> Arc<dyn Handler>;
}

/// Lends `owned` to `act` as a [`Request`] with the same body and extensions.
fn lend<R>(owned: &mut OwnedRequest, act: impl FnOnce(&mut Request<'_>) -> R) -> R {
    let content = owned.take_content();
    let whole = content.as_whole().cloned();
    let head = owned.head();
    let mut request = owned.as_request(&head, whole.as_deref().unwrap_or_default());
    if whole.is_none() {
        request.set_arriving(content);
    }
    let result = act(&mut request);
    let is_taken = request.content_length() == Some(0);
    let extensions = std::mem::take(request.extensions_mut());
    let left = if request.has_whole_content() { None } else { Some(request.take_content()) };
    drop(request);
    *owned.extensions_mut() = extensions;
    if let Some(content) = left.or_else(|| whole.filter(|_| !is_taken).map(RequestContent::whole)) {
        *owned.content() = content;
    }
    result
}

/// A type for type parameters that only select an implementation.
type Kind<K, L, M> = fn() -> (K, L, M);

/// A function with its state. `L` is the type of its arguments, and `M` the marker of the last argument.
struct Extracting<K, F, S, L, M> {
    function: Arc<F>,
    state: S,
    kind: PhantomData<Kind<K, L, M>>,
}

impl<K, F, S, L, M> Extracting<K, F, S, L, M> {
    fn new(function: F, state: S) -> Self {
        Self { function: Arc::new(function), state, kind: PhantomData }
    }
}

impl<K, F, S, L, M> fmt::Debug for Extracting<K, F, S, L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extracting").finish_non_exhaustive()
    }
}

/// A function whose arguments are the nested pairs `L`.
pub(crate) trait Function<L, R>: Send + Sync + 'static {
    fn call(&self, arguments: L) -> R;
}

/// The kind of a function that returns a response.
struct Immediate<R>(PhantomData<R>);

/// The kind of a function that returns a future of a response.
struct Asynchronous<T, R>(PhantomData<(T, R)>);

impl<F, S, L, M, R> Handler for Extracting<Immediate<R>, F, S, L, M>
where
    F: Function<L, R>,
    S: Send + Sync + 'static,
    L: Arguments<S, M>,
    M: 'static,
    R: IntoResponse + 'static,
{
    #[inline]
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match L::extract(request, &self.state) {
            Extraction::Now(Ok(arguments)) => Answer::Now(self.function.call(arguments).into_response()),
            Extraction::Now(Err(response)) => Answer::Now(response),
            Extraction::Later(later) => {
                let function = self.function.clone();
                Answer::later(async move {
                    match later.await {
                        Ok(arguments) => function.call(arguments).into_response(),
                        Err(response) => response,
                    }
                })
            }
        }
    }
}

impl<F, S, L, M, T, R> Handler for Extracting<Asynchronous<T, R>, F, S, L, M>
where
    F: Function<L, T>,
    S: Send + Sync + 'static,
    L: Arguments<S, M>,
    M: 'static,
    T: Future<Output = R> + 'static,
    R: IntoResponse + 'static,
{
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match L::extract(request, &self.state) {
            Extraction::Now(Ok(arguments)) => {
                let future = self.function.call(arguments);
                Answer::later(async move { future.await.into_response() })
            }
            Extraction::Now(Err(response)) => Answer::Now(response),
            Extraction::Later(later) => {
                let function = self.function.clone();
                Answer::later(async move {
                    match later.await {
                        Ok(arguments) => function.call(arguments).await.into_response(),
                        Err(response) => response,
                    }
                })
            }
        }
    }
}

/// Builds nested pairs from a list of types or names.
macro_rules! nested {
    () => { () };
    ($first:ident $($other:ident)*) => { ($first, nested!($($other)*)) };
}
pub(crate) use nested;

macro_rules! function {
    ($($argument:ident)*) => {
        impl<F, R, $($argument),*> Function<nested!($($argument)*), R> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
        {
            #[inline]
            #[allow(non_snake_case, reason = "each argument has the name of its type")]
            fn call(&self, nested!($($argument)*): nested!($($argument)*)) -> R {
                self($($argument),*)
            }
        }
    };
}

/// Implements the conversions for functions of these arguments. The conversions for one argument name the
/// marker of this argument, because the function of an `OwnedRequest` has an implementation of its own.
macro_rules! conversions {
    ([$($m:ident)?] $marker:ty; $($argument:ident)*) => {
        impl<F, R, $($m,)? $($argument),*> IntoHandler<Now<($marker, fn($($argument),*) -> R)>> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
            nested!($($argument)*): Arguments<(), $marker>,
            R: IntoResponse + 'static,
            $marker: 'static,
        {
            fn into_handler(self) -> Arc<dyn Handler> {
                self.into_handler_with_state(())
            }
        }

        impl<F, T, R, $($m,)? $($argument),*> IntoHandler<Later<($marker, fn($($argument),*) -> (T, R))>> for F
        where
            F: Fn($($argument),*) -> T + Send + Sync + 'static,
            nested!($($argument)*): Arguments<(), $marker>,
            T: Future<Output = R> + 'static,
            R: IntoResponse + 'static,
            $marker: 'static,
        {
            fn into_handler(self) -> Arc<dyn Handler> {
                self.into_handler_with_state(())
            }
        }

        impl<F, S, R, $($m,)? $($argument),*>
            IntoHandlerWithState<S, Now<($marker, fn($($argument),*) -> R)>> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
            S: Send + Sync + 'static,
            nested!($($argument)*): Arguments<S, $marker>,
            R: IntoResponse + 'static,
            $marker: 'static,
        {
            fn into_handler_with_state(self, state: S) -> Arc<dyn Handler> {
                Arc::new(Extracting::<Immediate<R>, F, S, nested!($($argument)*), $marker>::new(self, state))
            }
        }

        impl<F, S, T, R, $($m,)? $($argument),*>
            IntoHandlerWithState<S, Later<($marker, fn($($argument),*) -> (T, R))>> for F
        where
            F: Fn($($argument),*) -> T + Send + Sync + 'static,
            S: Send + Sync + 'static,
            nested!($($argument)*): Arguments<S, $marker>,
            T: Future<Output = R> + 'static,
            R: IntoResponse + 'static,
            $marker: 'static,
        {
            fn into_handler_with_state(self, state: S) -> Arc<dyn Handler> {
                Arc::new(Extracting::<Asynchronous<T, R>, F, S, nested!($($argument)*), $marker>::new(self, state))
            }
        }
    };
}

conversions!([] ViaParts; A);
conversions!([] ViaRequest; A);
conversions!([M] M; A B);
conversions!([M] M; A B C);
conversions!([M] M; A B C D);
conversions!([M] M; A B C D E);
conversions!([M] M; A B C D E G);
conversions!([M] M; A B C D E G H);
conversions!([M] M; A B C D E G H I);

function!(A);
function!(A B);
function!(A B C);
function!(A B C D);
function!(A B C D E);
function!(A B C D E G);
function!(A B C D E G H);
function!(A B C D E G H I);

impl<F, T, R> IntoHandler<Later<fn() -> (T, R)>> for F
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = R> + 'static,
    R: IntoResponse,
{
    fn into_handler(self) -> Arc<dyn Handler> {
        (move |_: OwnedRequest| self()).into_handler()
    }
}

impl<S, H: Handler> IntoHandlerWithState<S, ()> for H {
    fn into_handler_with_state(self, _: S) -> Arc<dyn Handler> {
        self.into_handler()
    }
}

impl<S, F, R> IntoHandlerWithState<S, fn() -> R> for F
where
    F: IntoHandler<fn() -> R> + Fn() -> R,
{
    fn into_handler_with_state(self, _: S) -> Arc<dyn Handler> {
        self.into_handler()
    }
}

impl<S, F, T, R> IntoHandlerWithState<S, Later<fn() -> (T, R)>> for F
where
    F: IntoHandler<Later<fn() -> (T, R)>> + Fn() -> T,
    T: Future<Output = R>,
{
    fn into_handler_with_state(self, _: S) -> Arc<dyn Handler> {
        self.into_handler()
    }
}

impl<S, F, R> IntoHandlerWithState<S, fn(&Request<'_>) -> R> for F
where
    F: Fn(&Request<'_>) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    fn into_handler_with_state(self, _: S) -> Arc<dyn Handler> {
        self.into_handler()
    }
}

impl<S, F, T, R> IntoHandlerWithState<S, fn(OwnedRequest) -> (T, R)> for F
where
    F: Fn(OwnedRequest) -> T + Send + Sync + 'static,
    T: Future<Output = R> + 'static,
    R: IntoResponse,
{
    fn into_handler_with_state(self, _: S) -> Arc<dyn Handler> {
        self.into_handler()
    }
}
