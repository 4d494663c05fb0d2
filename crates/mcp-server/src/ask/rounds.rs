//! Multi round-trip requests: the modern way to ask.

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

/// The questions of one request and the answers so far.
#[derive(Default, Debug)]
pub(crate) struct Rounds(Mutex<Inner>);

#[derive(Default, Debug)]
struct Inner {
    /// As they were sent: as values they could take up many times that.
    answers: BTreeMap<String, Box<RawValue>>,
    /// What the handler has asked in this round.
    asked: BTreeMap<String, Question>,
    round: u32,
    /// Whoever drives the handler, to be told when a task of the handler's asks.
    driver: Option<Waker>,
}

impl Rounds {
    /// Takes up what the client brings along.
    ///
    /// # Errors
    /// The request state is not what this server gave for this request, or the answers are malformed.
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

    /// The answer to the question `key`; if there is none yet, or one that is none, notes that it is asked.
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

    /// Whether the handler, which has nothing else to do now, waits for the client.
    pub(crate) fn poll_questions(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.asked.is_empty() {
            return Poll::Ready(());
        }
        inner.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether earlier rounds came before.
    pub(crate) fn is_resumed(&self) -> bool {
        let inner = self.lock();
        inner.round > 0 || !inner.answers.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the client is sent: the questions, and the state that it brings back with the answers.
///
/// # Errors
/// The handler has asked too often.
pub(crate) fn input_required(
    rounds: &Rounds,
    key: &StateKey,
    request: &BoundRequest,
) -> Result<Value, Error> {
    let inner = rounds.lock();
    if inner.round >= ROUNDS_MAX {
        return Err(Error::internal("the handler asks the client again and again"));
    }
    let state = State::new(inner.answers.clone(), inner.round + 1);
    let requests: BTreeMap<_, _> = inner
        .asked
        .iter()
        .map(|(key, question)| (key, json!({"method": question.method, "params": question.params})))
        .collect();
    Ok(json!({"inputRequests": requests, "requestState": key.seal(state, &request.binding())?}))
}

/// How many answers a request may collect.
const ANSWERS_MAX: usize = 100;

/// How often a handler may ask.
const ROUNDS_MAX: u32 = 32;
