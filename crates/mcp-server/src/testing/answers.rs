//! Answers of the test to questions of the server.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thruway_mcp::schema::{
    ClientCapabilities, CreateMessageRequestParams, CreateMessageResult, ElicitAction,
    ElicitRequestFormParams, ElicitRequestURLParams, methods,
};

/// The answer of the user to a form.
#[derive(Clone, PartialEq, Debug)]
pub enum FormAnswer {
    /// The user has filled in the form with these values, which must be an object.
    Accept(Value),
    /// The user refuses to fill in the form.
    Decline,
    /// The user has closed the form without a decision.
    Cancel,
}

type AnswerForm = dyn FnMut(&ElicitRequestFormParams) -> FormAnswer + Send;
type AnswerPage = dyn FnMut(&ElicitRequestURLParams) -> ElicitAction + Send;
type AnswerSampling = dyn FnMut(&CreateMessageRequestParams) -> CreateMessageResult + Send;

/// The functions of the test that answer the questions of the server.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) form: Option<Box<AnswerForm>>,
    pub(super) page: Option<Box<AnswerPage>>,
    pub(super) sample: Option<Box<AnswerSampling>>,
    pub(super) roots: Option<Vec<String>>,
}

impl FormAnswer {
    /// Returns the answer of a user that has filled in the form with `values`.
    ///
    /// # Panics
    /// Panics if `values` cannot be written as JSON.
    pub fn accept(values: impl Serialize) -> Self {
        Self::Accept(serde_json::to_value(values).expect("the values of the form can be written as JSON"))
    }
}

impl Answers {
    /// Returns the capabilities of a client that gives these answers.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.form.is_some() {
            capabilities = capabilities.with_elicitation();
        }
        if self.page.is_some() {
            capabilities = capabilities.with_url_elicitation();
        }
        if self.sample.is_some() {
            capabilities = capabilities.with_sampling();
        }
        if self.roots.is_some() {
            capabilities = capabilities.with_roots();
        }
        capabilities
    }

    /// Returns the answer to a question.
    ///
    /// # Panics
    /// Panics if the test has no answer, or if the question is malformed.
    pub(super) fn answer(&mut self, method: &str, params: &Value) -> Value {
        match method {
            methods::ELICITATION_CREATE if params["mode"] == "url" => {
                let answer = self.page.as_mut().expect(NO_ANSWER);
                json!({"action": answer(&question(method, params)).as_str()})
            }
            methods::ELICITATION_CREATE => {
                match self.form.as_mut().expect(NO_ANSWER)(&question(method, params)) {
                    FormAnswer::Accept(content) => json!({"action": "accept", "content": content}),
                    FormAnswer::Decline => json!({"action": "decline"}),
                    FormAnswer::Cancel => json!({"action": "cancel"}),
                }
            }
            methods::SAMPLING_CREATE_MESSAGE => {
                json!(self.sample.as_mut().expect(NO_ANSWER)(&question(method, params)))
            }
            methods::ROOTS_LIST => {
                let roots = self.roots.as_ref().expect(NO_ANSWER);
                json!({"roots": roots.iter().map(|uri| json!({"uri": uri})).collect::<Vec<_>>()})
            }
            other => panic!("the server has sent the unknown request `{other}`"),
        }
    }
}

/// Returns the parameters of a question.
///
/// # Panics
/// Panics if the question is malformed.
fn question<T: DeserializeOwned>(method: &str, params: &Value) -> T {
    T::deserialize(params)
        .unwrap_or_else(|error| panic!("the server has sent a malformed `{method}`: {error}"))
}

const NO_ANSWER: &str =
    "the server has asked a question, but the client has not declared the capability for it";
