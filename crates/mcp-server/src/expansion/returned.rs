//! The conversion of return values of functions with `#[tool]`, `#[prompt]` or `#[resource]`.
//!
//! A trait for all serializable types would conflict with the answers that have their own conversions, such
//! as `Result` and `Vec<ContentBlock>`. The generated code knows the type of the value, so it can select the
//! conversion with a method call. Several traits have a method of the same name. The compiler skips the
//! implementations with unmet bounds, and takes the one that needs the fewest dereferences. The generated
//! code calls `error_kind` and `answer_kind` on `&&&&Returned<T>`, so the implementation for `&&&Returned<T>`
//! comes first.

#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "the methods of all kinds have the same form, and the type of `self` selects one"
)]

use std::fmt::Display;

use schemars::JsonSchema;
use serde::Serialize;
use thruway_mcp::schema::CallToolResult;

use crate::handlers::{HandlerError, IntoAnswer, Typed};
use crate::registry::ResourceAnswer;

/// A value that a function returned. Only its type is used.
#[derive(Clone, Copy)]
pub struct Returned<'v, T: ?Sized>(pub &'v T);

/// The value is a `Result`, and its error has a conversion to `HandlerError`.
pub trait ErrorOfInto {
    fn error_kind(&self) -> ConvertError {
        ConvertError
    }
}

impl<T, E: Into<HandlerError>> ErrorOfInto for &&&Returned<'_, Result<T, E>> {}

/// The value is a `Result`, and its error implements `Display`.
pub trait ErrorOfDisplay {
    fn error_kind(&self) -> DisplayError {
        DisplayError
    }
}

impl<T, E: Display> ErrorOfDisplay for &&Returned<'_, Result<T, E>> {}

/// The value is a `Result` with another error, which the compiler refuses.
pub trait ErrorOfAny {
    fn error_kind(&self) -> DisplayError {
        DisplayError
    }
}

impl<T, E> ErrorOfAny for &Returned<'_, Result<T, E>> {}

/// The value is not a `Result`.
pub trait NoError {
    fn error_kind(&self) -> KeepValue {
        KeepValue
    }
}

impl<T> NoError for Returned<'_, T> {}

pub struct ConvertError;

impl ConvertError {
    pub fn split<T, E: Into<HandlerError>>(self, outcome: Result<T, E>) -> Result<T, HandlerError> {
        outcome.map_err(Into::into)
    }
}

pub struct DisplayError;

impl DisplayError {
    pub fn split<T, E: ErrorText>(self, outcome: Result<T, E>) -> Result<T, HandlerError> {
        outcome.map_err(|error| HandlerError::failed(error.to_string()))
    }
}

pub struct KeepValue;

impl KeepValue {
    pub const fn split<T>(self, value: T) -> Result<T, HandlerError> {
        Ok(value)
    }
}

/// An error that a function can return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler",
    label = "this error has no text for the client",
    note = "implement `std::fmt::Display` for the error, or convert it to a `HandlerError`"
)]
pub trait ErrorText: Display {}

impl<E: Display> ErrorText for E {}

/// The value is a text that may be borrowed.
pub trait AnswerOfText {
    fn answer_kind(&self) -> OwnText {
        OwnText
    }
}

impl AnswerOfText for &&&Returned<'_, &str> {}

/// The value has its own conversion to an answer.
pub trait AnswerReady {
    fn answer_kind(&self) -> KeepAnswer {
        KeepAnswer
    }
}

impl<T: IntoAnswer<CallToolResult>> AnswerReady for &&Returned<'_, T> {}

/// The value has a schema.
pub trait AnswerOfTyped {
    fn answer_kind(&self) -> AddSchema {
        AddSchema
    }
}

impl<T: Serialize + JsonSchema> AnswerOfTyped for &Returned<'_, T> {}

/// The value has its own conversion to the content of a resource.
pub trait ResourceReady {
    fn answer_kind(&self) -> KeepAnswer {
        KeepAnswer
    }
}

impl<T: IntoAnswer<ResourceAnswer>> ResourceReady for &&Returned<'_, T> {}

/// The value can be written as JSON.
pub trait ResourceOfJson {
    fn answer_kind(&self) -> WriteJson {
        WriteJson
    }
}

impl<T: Serialize> ResourceOfJson for &Returned<'_, T> {}

/// The value has no conversion, so the compiler refuses it when it becomes an answer.
pub trait AnswerOfAny {
    fn answer_kind(&self) -> KeepAnswer {
        KeepAnswer
    }
}

impl<T> AnswerOfAny for Returned<'_, T> {}

pub struct OwnText;

impl OwnText {
    pub fn convert(self, text: &str) -> String {
        text.to_owned()
    }
}

pub struct KeepAnswer;

impl KeepAnswer {
    pub fn convert<T>(self, value: T) -> T {
        value
    }
}

pub struct AddSchema;

impl AddSchema {
    pub const fn convert<T>(self, value: T) -> Typed<T> {
        Typed(value)
    }
}

pub struct WriteJson;

impl WriteJson {
    pub const fn convert<T>(self, value: T) -> JsonText<T> {
        JsonText(value)
    }
}

/// The content of a resource, as JSON.
pub struct JsonText<T>(T);

impl<T: Serialize> IntoAnswer<ResourceAnswer> for JsonText<T> {
    fn into_answer(self) -> Result<ResourceAnswer, HandlerError> {
        serde_json::to_string(&self.0).map(ResourceAnswer::Text).map_err(|error| {
            HandlerError::failed(format!("the server cannot write the resource as JSON: {error}"))
        })
    }
}
