//! Builds the request of a call from the arguments of the tool.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::operation::{ApiCall, ApiParameter, Place, Style};

/// The request of a call, without the base URL and the headers of all requests.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct ApiRequest {
    /// The path and the query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    /// The media type and the bytes of the body, if any.
    pub(crate) body: Option<(String, Vec<u8>)>,
}

impl ApiCall {
    /// Returns the request for these arguments, which match the schema of the tool.
    ///
    /// # Errors
    /// Returns an error if a value cannot be a part of a path, or if the path would have dot segments.
    pub(crate) fn request(&self, mut arguments: Map<String, Value>) -> Result<ApiRequest, String> {
        let mut target = self.path.clone();
        let mut query: Vec<(String, String)> = Vec::new();
        let mut headers = Vec::new();
        for parameter in &self.parameters {
            let Some(value) = arguments.get(&parameter.argument).filter(|value| !value.is_null()) else {
                continue;
            };
            match parameter.place {
                Place::Path => {
                    let text = joined(parameter, value);
                    if text.is_empty() {
                        return Err(format!("`{}` cannot be empty", parameter.argument));
                    }
                    target = target.replace(&format!("{{{}}}", parameter.name), &encoded(&text));
                }
                Place::Query => query.extend(pairs(parameter, value)),
                Place::Header => headers.push((parameter.name.clone(), joined(parameter, value))),
            }
        }
        if target.contains('{') {
            return Err("a parameter of the path is missing".to_owned());
        }
        if has_dot_segment(&target) {
            return Err("the path cannot have the segment `.` or `..`".to_owned());
        }
        for (place, (name, value)) in query.iter().enumerate() {
            target.push(if place == 0 { '?' } else { '&' });
            target.push_str(&encoded(name));
            target.push('=');
            target.push_str(&encoded(value));
        }
        let body = self.body.as_ref().and_then(|body| {
            let value = arguments.shift_remove(&body.argument)?;
            Some((body.media_type.clone(), value.to_string().into_bytes()))
        });
        Ok(ApiRequest { target, headers, body })
    }
}

/// Returns the pairs of a query parameter.
fn pairs(parameter: &ApiParameter, value: &Value) -> Vec<(String, String)> {
    let name = &parameter.name;
    match (value, parameter.style) {
        (Value::Array(values), Style::Exploded) => {
            values.iter().map(|value| (name.clone(), text(value))).collect()
        }
        (Value::Object(members), Style::Exploded) => {
            members.iter().map(|(member, value)| (member.clone(), text(value))).collect()
        }
        (Value::Object(members), Style::Deep) => {
            members.iter().map(|(member, value)| (format!("{name}[{member}]"), text(value))).collect()
        }
        _ => vec![(name.clone(), joined(parameter, value))],
    }
}

/// Returns the value of a parameter as one text.
fn joined(parameter: &ApiParameter, value: &Value) -> String {
    match (value, parameter.style) {
        (Value::Array(values), Style::Joined(separator)) => {
            values.iter().map(text).collect::<Vec<_>>().join(&separator.to_string())
        }
        (Value::Object(members), Style::Joined(separator)) => {
            let members = members.iter().flat_map(|(name, value)| [name.clone(), text(value)]);
            members.collect::<Vec<_>>().join(&separator.to_string())
        }
        (value, Style::Json) => value.to_string(),
        (value, _) => text(value),
    }
}

/// Returns a text unchanged, and any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns `true` if a server could find the segment `.` or `..` in the path. Servers can resolve such segments also if
/// they are encoded, even several times (RFC 3986 §6.2.2.3), separated by backslashes, or followed by `;`.
fn has_dot_segment(path: &str) -> bool {
    let mut path = Cow::Borrowed(path.as_bytes());
    for _ in 0..=DECODINGS_MAX {
        let is_dots = |segment: &[u8]| {
            let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            name == b"." || name == b".."
        };
        if path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_dots) {
            return true;
        }
        let decoded: Vec<u8> = percent_decode(&path).collect();
        if decoded.len() == path.len() {
            break;
        }
        path = Cow::Owned(decoded);
    }
    false
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Maximum number of times that a server decodes a path.
const DECODINGS_MAX: usize = 4;

/// All characters except the unreserved ones (RFC 3986 §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
