//! What a result means for the request that it answers.

use alloc::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ResultType;

/// The result says of itself something that no revision knows, or is no object: it must not be taken for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownResultType;

/// What `result` says it is. Servers of the legacy era do not say it: theirs are complete.
///
/// # Errors
/// See [`UnknownResultType`].
pub fn result_type(result: &RawValue) -> Result<ResultType, UnknownResultType> {
    if !result.get().starts_with('{') {
        return Err(UnknownResultType);
    }
    let said: Said<'_> = serde_json::from_str(result.get()).map_err(|_| UnknownResultType)?;
    match said.result_type.as_deref() {
        None | Some("complete") => Ok(ResultType::Complete),
        Some("input_required") => Ok(ResultType::InputRequired),
        Some("task") => Ok(ResultType::Task),
        Some(_) => Err(UnknownResultType),
    }
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default, rename = "resultType")]
    result_type: Option<Cow<'a, str>>,
}
