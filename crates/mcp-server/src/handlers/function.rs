//! Functions and closures as handlers.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thruway_mcp::schema::JsonObject;

use super::{Call, Context, HandlerError, IntoAnswer};

/// Answers calls of a tool, a prompt or a resource. `I` is the input type, and `O` is the answer type.
///
/// | function | behavior |
/// |---|---|
/// | `Fn() -> impl IntoAnswer<O>` | ignores the input and answers at once |
/// | `Fn(I) -> impl IntoAnswer<O>` | answers at once |
/// | `Fn(I, &Call) -> impl IntoAnswer<O>` | answers at once, with access to the request |
/// | `Fn() -> impl Future<Output: IntoAnswer<O>>` | ignores the input, and answers when the future is ready |
/// | `Fn(I) -> impl Future<Output: IntoAnswer<O>>` | answers when the future is ready |
/// | `Fn(Context) -> impl Future<Output: IntoAnswer<O>>` | like `Fn()`; may report progress, log, and ask the client |
/// | `Fn(I, Context) -> impl Future<Output: IntoAnswer<O>>` | like `Fn(Context)`, with the input |
///
/// A closure must name the types of its arguments. A function that answers at once has the least overhead. A
/// function that waits must be `async`. Otherwise, it blocks all other requests on the same worker thread.
/// The type parameter `Marker` only distinguishes the seven kinds of functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler with input `{I}` and answer `{O}`",
    note = "a handler takes no parameters, its input, or its input and `&Call`; an \
            `async` handler can take its input and `Context`",
    note = "a closure must name the types of its parameters, and its return type must \
            implement `IntoAnswer<{O}>`"
)]
pub trait Handler<I, O, Marker>: Send + Sync + 'static {
    /// Returns the JSON Schema of the answer, if the answer type has a schema.
    fn output_schema() -> Option<JsonObject>;

    /// Returns `true` if the server puts the structured content of the answer into an object.
    #[doc(hidden)]
    fn is_wrapped() -> bool {
        false
    }

    /// Returns the answer to a call, or a future that produces the answer.
    fn call(&self, input: I, call: &Call<'_>) -> Outcome<O>;
}

/// The input type of handlers without arguments. The arguments of a call are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
pub struct NoInput {}

/// The schema must have no description, because a model would read it as a part of the tool.
impl JsonSchema for NoInput {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NoInput".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// The answer of a handler, or a future that produces the answer.
pub enum Outcome<O> {
    /// The immediate answer. This variant needs no allocation.
    Now(Result<O, HandlerError>),
    /// A future that produces the answer. The server drops the future if the client disconnects or cancels
    /// the request.
    Later(Later<O>),
}

/// A future that produces the answer of a handler.
pub type Later<O> = Pin<Box<dyn Future<Output = Result<O, HandlerError>> + Send>>;

/// Implements [`Handler`] for functions. Each line contains the type parameters, the marker, the input, the
/// function, further bounds, and the outcome of a call.
macro_rules! handlers {
    ($(
        [$($generic:ident)*] $marker:ty, $input:ty, ($($function:tt)*), ($($bounds:tt)*),
        |$called:ident, $argument:pat_param, $call:pat_param| $outcome:expr;
    )*) => {$(
        impl<F, O, $($generic,)* R> Handler<$input, O, $marker> for F
        where
            F: $($function)* + Send + Sync + 'static,
            R: IntoAnswer<O>,
            $($bounds)*
        {
            fn output_schema() -> Option<JsonObject> {
                R::output_schema()
            }

            fn is_wrapped() -> bool {
                R::is_wrapped()
            }

            fn call(&self, $argument: $input, $call: &Call<'_>) -> Outcome<O> {
                let $called = self;
                $outcome
            }
        }
    )*};
}

handlers! {
    [] fn() -> R, NoInput, (Fn() -> R), (), |handler, _, _| now(handler());
    [I] fn(I) -> R, I, (Fn(I) -> R), (), |handler, input, _| now(handler(input));
    [I] fn(I, &Call<'_>) -> R, I, (Fn(I, &Call<'_>) -> R), (), |handler, input, call| now(handler(input, call));

    [T] (fn() -> T, R), NoInput, (Fn() -> T), (T: Future<Output = R> + Send + 'static),
        |handler, _, _| later(handler());
    [I T] (fn(I) -> T, R), I, (Fn(I) -> T), (I: AsyncInput, T: Future<Output = R> + Send + 'static),
        |handler, input, _| later(handler(input));
    [T] fn(Context) -> (T, R), NoInput, (Fn(Context) -> T), (T: Future<Output = R> + Send + 'static),
        |handler, _, call| later(handler(call.context()));
    [I T] fn(I, Context) -> (T, R), I, (Fn(I, Context) -> T), (T: Future<Output = R> + Send + 'static),
        |handler, input, call| later(handler(input, call.context()));
}

fn now<O>(answer: impl IntoAnswer<O>) -> Outcome<O> {
    Outcome::Now(answer.into_answer())
}

fn later<O, R: IntoAnswer<O>>(answer: impl Future<Output = R> + Send + 'static) -> Outcome<O> {
    Outcome::Later(Box::pin(async move { answer.await.into_answer() }))
}

/// A type that can be the only parameter of an `async` handler. `Context` is no such type, so the compiler
/// can distinguish an input from a `Context`.
pub trait AsyncInput {}

impl<T: DeserializeOwned> AsyncInput for T {}

impl<O: 'static> Outcome<O> {
    /// Applies `change` to the answer when the answer is ready.
    pub fn map<P>(
        self,
        change: impl FnOnce(Result<O, HandlerError>) -> Result<P, HandlerError> + Send + 'static,
    ) -> Outcome<P> {
        match self {
            Self::Now(outcome) => Outcome::Now(change(outcome)),
            Self::Later(later) => Outcome::Later(Box::pin(async move { change(later.await) })),
        }
    }
}
