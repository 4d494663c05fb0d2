//! Checks the reference in a request for a completion: the prompt or the resource template.
//!
//! Some servers ignore the case of member names, and use the last of two members. Such a server could complete another
//! item than the one that the gateway has checked.

use serde::Deserialize;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::members::append_members;
use thruway_mcp::schema::methods;

#[derive(Deserialize)]
struct ReferenceOf<'r> {
    #[serde(borrow, rename = "ref")]
    reference: Option<&'r RawValue>,
}

/// Checks that the reference in a request for a completion is unambiguous. Accepts all other requests. Ignores
/// malformed references, because the selection of the member refuses them.
///
/// # Errors
/// The reference has another spelling of `type`, or names both a prompt and a resource.
pub(super) fn check(request: &Request<'_>) -> Result<(), Error> {
    if request.method != methods::COMPLETION_COMPLETE {
        return Ok(());
    }
    let parsed = request.params.and_then(|params| serde_json::from_str::<ReferenceOf<'_>>(params.get()).ok());
    match parsed.and_then(|parsed| parsed.reference) {
        Some(reference) => check_members(reference),
        None => Ok(()),
    }
}

fn check_members(reference: &RawValue) -> Result<(), Error> {
    let (mut names, mut is_prompt) = (Vec::new(), false);
    // An error means that the reference is no object.
    let _ = append_members(&mut Vec::new(), reference, |name, value| {
        is_prompt |=
            name == "type" && serde_json::from_str(value.get()).is_ok_and(|kind: String| kind == PROMPT);
        names.push(name.to_owned());
        false
    });
    let foreign = if is_prompt { "uri" } else { "name" };
    let is_ambiguous = |name: &&String| {
        name.eq_ignore_ascii_case(foreign) || (*name != "type" && name.eq_ignore_ascii_case("type"))
    };
    match names.iter().find(is_ambiguous) {
        Some(name) => Err(Error::invalid_params(format!("unknown member `{name}` in `ref`"))),
        None => Ok(()),
    }
}

/// The type of a reference to a prompt.
const PROMPT: &str = "ref/prompt";

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::{Value, json};
    use thruway_mcp::json_rpc::{ErrorCode, Id};

    use super::*;

    fn checked(method: &'static str, reference: &Value) -> Result<(), Error> {
        let params = serde_json::value::to_raw_value(&json!({"ref": reference})).unwrap();
        check(&Request { id: Id::Integer(1), method: Cow::Borrowed(method), params: Some(&params) })
    }

    /// Regression test: a server that ignores the case of names completed a hidden resource.
    #[test]
    fn ambiguous_references_are_refused() {
        for reference in [
            json!({"type": "ref/prompt", "Type": "ref/resource", "name": "a"}),
            json!({"type": "ref/prompt", "name": "a", "uri": "test://hidden"}),
            json!({"type": "ref/prompt", "name": "a", "URI": "test://hidden"}),
            json!({"type": "ref/resource", "uri": "test://a", "name": "hidden"}),
            json!({"type": "ref/resource", "uri": "test://a", "Name": "hidden"}),
        ] {
            let error = checked(methods::COMPLETION_COMPLETE, &reference).unwrap_err();
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{reference}");
            assert_eq!(checked(methods::PROMPTS_GET, &reference), Ok(()));
        }
    }

    #[test]
    fn references_to_one_item_and_malformed_references_are_accepted() {
        for reference in [
            json!({"type": "ref/prompt", "name": "a", "title": "A"}),
            json!({"type": "ref/resource", "uri": "test://{id}"}),
            json!("ref/prompt"),
            json!(null),
        ] {
            assert_eq!(checked(methods::COMPLETION_COMPLETE, &reference), Ok(()), "{reference}");
        }
    }
}
