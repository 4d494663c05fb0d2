//! A handler whose panics and failed bodies are reported to the test.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use thruway_net::Pipe;

use super::error::TestError;
use crate::handler::{Answer, Handler};
use crate::request::Request;
use crate::response::{AtDrain, BoxError, Content, ContentStream, Piece, Response};

/// The first failure of the handler, if any. The clones share it.
#[derive(Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<TestError>>>);

impl Failure {
    pub(super) fn get(&self) -> Option<TestError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, failure: TestError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    /// Calls `act`. If it panics, stores the message and continues the panic.
    fn watch<R>(&self, act: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
            self.set(TestError::Panicked(message_of(&*panic)));
            resume_unwind(panic)
        })
    }

    /// Returns `response` with a body that stores its failures.
    fn watch_content(&self, mut response: Response) -> Response {
        let content = match response.take_body().into_stream() {
            Ok(inner) => Content::from_content_stream(WatchedContent { inner, failure: self.clone() }),
            Err(content) => content,
        };
        response.with_content(content)
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

/// A handler that stores the failure of a response.
pub(super) struct Watched {
    inner: Arc<dyn Handler>,
    failure: Failure,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Handler>, failure: Failure) -> Self {
        Self { inner, failure }
    }
}

impl Handler for Watched {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match self.failure.watch(|| self.inner.handle(request)) {
            Answer::Now(response) => Answer::Now(self.failure.watch_content(response)),
            Answer::Later(mut later) => {
                let failure = self.failure.clone();
                Answer::later(async move {
                    let response = poll_fn(|cx| failure.watch(|| later.as_mut().poll(cx))).await;
                    failure.watch_content(response)
                })
            }
        }
    }
}

/// A body that stores its failure.
struct WatchedContent {
    inner: Pin<Box<dyn ContentStream>>,
    failure: Failure,
}

impl WatchedContent {
    fn note<T>(&self, outcome: Result<T, BoxError>) -> Result<T, BoxError> {
        outcome.inspect_err(|error| self.failure.set(TestError::BodyFailed(error.to_string())))
    }
}

impl ContentStream for WatchedContent {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let failure = self.failure.clone();
        let next = failure.watch(|| self.inner.as_mut().poll_next(cx));
        next.map(|piece| piece.map(|piece| self.note(piece)))
    }

    fn poll_pipe(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
        let failure = self.failure.clone();
        failure.watch(|| self.inner.as_mut().poll_pipe(cx)).map(|pipe| pipe.map(|pipe| self.note(pipe)))
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let failure = self.failure.clone();
        let outcome = failure.watch(|| self.inner.as_mut().poll_meanwhile(cx));
        self.note(outcome)
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        self.inner.as_mut().at_drain()
    }
}
