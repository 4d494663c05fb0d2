//! Questions in multi round-trip requests (modern era).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::Params;

use super::Question;
use super::request_state::{BoundRequest, State, StateKey};

/// The questions of one request, and the answers that the client has sent so far.
#[derive(Default, Debug)]
pub(crate) struct Rounds(Mutex<Inner>);

#[derive(Default, Debug)]
struct Inner {
    /// The answers as JSON text, which needs less memory than parsed values.
    answers: BTreeMap<String, Box<RawValue>>,
    /// The questions that the handler has asked in the current round.
    asked: BTreeMap<String, Question>,
    round: u32,
    /// Waker of the tokio task that polls the handler. A handler may ask a question in another tokio task
    /// that it has spawned. Therefore, `poll_answer` wakes the first task.
    driver: Option<Waker>,
}

impl Rounds {
    /// Reads the answers (`inputResponses`) and the state (`requestState`) from the parameters of a
    /// request.
    ///
    /// # Errors
    /// Returns an error if the state is not valid for this request, or if the answers are malformed or too
    /// numerous.
    pub(crate) fn resume(
        params: &Params<'_>,
        key: &StateKey,
        request: impl FnOnce() -> BoundRequest,
    ) -> Result<Self, Error> {
        let mut state = match &params.request_state {
            Some(sealed) => key.open(sealed, &request().binding())?,
            None => State::default(),
        };
        if let Some(responses) = params.input_responses {
            let responses: BTreeMap<String, Box<RawValue>> = serde_json::from_str(responses.get())
                .map_err(|_| Error::invalid_params("`inputResponses` must be an object"))?;
            state.answers.extend(responses);
        }
        if state.answers.len() > ANSWERS_MAX {
            return Err(Error::invalid_params("`inputResponses` has too many members"));
        }
        let State { answers, round, .. } = state;
        Ok(Self(Mutex::new(Inner { answers, round, ..Inner::default() })))
    }

    /// Returns the answer to the question `key`. Adds the question to the current round if the client has not
    /// answered it, or if the answer has the wrong type.
    pub(crate) fn poll_answer<R: DeserializeOwned>(&self, key: &str, question: &Question) -> Poll<R> {
        let mut inner = self.lock();
        if let Some(answer) = inner.answers.get(key)
            && let Ok(answer) = serde_json::from_str(answer.get())
        {
            return Poll::Ready(answer);
        }
        inner.asked.insert(key.to_owned(), question.clone());
        if let Some(driver) = &inner.driver {
            driver.wake_by_ref();
        }
        Poll::Pending
    }

    /// Returns `Ready` if the handler has asked questions in this round. Call this method after the handler
    /// has returned `Pending`.
    pub(crate) fn poll_questions(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.asked.is_empty() {
            return Poll::Ready(());
        }
        inner.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns `true` if the request contains answers, or the state of an earlier round.
    pub(crate) fn is_resumed(&self) -> bool {
        let inner = self.lock();
        inner.round > 0 || !inner.answers.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a result with the handler's questions and a state. The client must return this state together
/// with the answers.
///
/// # Errors
/// Returns an error if the handler has asked questions in too many rounds.
pub(crate) fn input_required(
    rounds: &Rounds,
    key: &StateKey,
    request: &BoundRequest,
) -> Result<Value, Error> {
    let inner = rounds.lock();
    if inner.round >= ROUNDS_MAX {
        return Err(Error::internal("the handler asked the client too many times"));
    }
    let state = State::new(inner.answers.clone(), inner.round + 1);
    let requests: BTreeMap<_, _> = inner
        .asked
        .iter()
        .map(|(key, question)| (key, json!({"method": question.method, "params": question.params})))
        .collect();
    Ok(json!({"inputRequests": requests, "requestState": key.seal(state, &request.binding())?}))
}

/// Maximum number of answers that the client may send in all rounds of a request.
const ANSWERS_MAX: usize = 100;

/// Maximum number of rounds in which a handler may ask questions.
const ROUNDS_MAX: u32 = 32;
