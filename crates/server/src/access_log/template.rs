//! Lines by a template with variables: `{client.address} "{request_line}" {http.response.status_code}`.

use std::fmt;
use std::sync::Arc;

use super::client_text::write_escaped;
use super::members::write_plain;
use super::variable::{Source, Value, Variable};

/// A template of log lines. `{NAME}` is a variable, and `{{` and `}}` are braces. A variable without a value
/// gives `-`. In values, quotes, backslashes and all bytes except printable ASCII are escaped as in the
/// combined format, so that no client can forge a line or end a quoted column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessLogTemplate(Arc<[Part]>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Box<str>),
    Variable(Variable),
}

/// Reason for which a template is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidTemplate {
    /// A brace has no partner.
    Brace,
    /// The text contains a line break or another control character.
    ControlCharacter,
    /// The template contains no variable.
    Constant,
    /// There is no variable with this name.
    UnknownVariable(String),
}

impl AccessLogTemplate {
    /// Parses `text`.
    ///
    /// # Errors
    /// Returns the first error in the template.
    pub fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        if text.contains(char::is_control) {
            return Err(InvalidTemplate::ControlCharacter);
        }
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            if let Some(behind) = behind.strip_prefix(brace) {
                literal.push_str(brace);
                rest = behind;
                continue;
            }
            let (name, behind) = behind.split_once('}').ok_or(InvalidTemplate::Brace)?;
            if brace == "}" || name.contains('{') {
                return Err(InvalidTemplate::Brace);
            }
            let variable = Variable::named(name);
            let variable = variable.ok_or_else(|| InvalidTemplate::UnknownVariable(name.to_owned()))?;
            push_text(&mut parts, &mut literal);
            parts.push(Part::Variable(variable));
            rest = behind;
        }
        literal.push_str(rest);
        push_text(&mut parts, &mut literal);
        let has_variable = parts.iter().any(|part| matches!(part, Part::Variable(_)));
        if has_variable { Ok(Self(parts.into())) } else { Err(InvalidTemplate::Constant) }
    }

    pub(super) fn write(&self, line: &mut Vec<u8>, source: &Source<'_>) {
        for part in &*self.0 {
            match part {
                Part::Text(text) => line.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => write_value(line, &variable.value(source)),
            }
        }
        line.push(b'\n');
    }
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal).into_boxed_str()));
    }
}

fn write_value(line: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::None => line.push(b'-'),
        Value::Text(text) | Value::List(text) if text.is_empty() => line.push(b'-'),
        Value::Text(text) | Value::List(text) => write_escaped(line, text),
        other => write_plain(line, other),
    }
}

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brace => f.write_str("a brace has no partner"),
            Self::ControlCharacter => f.write_str("the template contains a control character"),
            Self::Constant => f.write_str("the template contains no variable"),
            Self::UnknownVariable(name) => write!(f, "unknown variable `{name}`"),
        }
    }
}

impl std::error::Error for InvalidTemplate {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_templates_are_refused_with_their_reason() {
        let error = |text| AccessLogTemplate::parse(text).unwrap_err();
        assert_eq!(error("{timestamp"), InvalidTemplate::Brace);
        assert_eq!(error("timestamp}"), InvalidTemplate::Brace);
        assert_eq!(error("{a{timestamp}"), InvalidTemplate::Brace);
        assert_eq!(error("{timestamp}\n"), InvalidTemplate::ControlCharacter);
        assert_eq!(error("{{timestamp}}"), InvalidTemplate::Constant);
        assert_eq!(error("{status}"), InvalidTemplate::UnknownVariable("status".to_owned()));
    }
}
