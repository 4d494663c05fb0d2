//! JSON lines with a chosen list of members: the formats `otel` and `ecs`, and members from the config.

use std::sync::Arc;

use super::client_text::write_json_text;
use super::variable::{Source, Value, Variable};

/// The members of JSON lines, each with a name and a variable. Lines omit members without a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessLogMembers(Arc<[(Box<str>, Variable)]>);

impl AccessLogMembers {
    /// Creates a list of members from pairs of a member name and the name of a variable.
    ///
    /// # Errors
    /// Returns the index of the first pair with an unknown variable.
    pub fn new<'n>(members: impl IntoIterator<Item = (&'n str, &'n str)>) -> Result<Self, usize> {
        let member = |(place, (name, variable)): (usize, (&str, &str))| {
            let mut quoted = b",\"".to_vec();
            write_json_text(&mut quoted, name.as_bytes());
            quoted.extend_from_slice(b"\":");
            let quoted = String::from_utf8_lossy(&quoted).into_owned().into_boxed_str();
            Ok((quoted, Variable::named(variable).ok_or(place)?))
        };
        members.into_iter().enumerate().map(member).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the names of all variables. The last name, `http.request.header.NAME`, stands for all request
    /// headers.
    pub fn variables() -> impl Iterator<Item = &'static str> {
        Variable::names()
    }

    pub(super) fn write(&self, line: &mut Vec<u8>, source: &Source<'_>) {
        line.push(b'{');
        write_members(line, self.0.iter().map(|(name, variable)| (&**name, variable)), source);
        line.extend_from_slice(b"}\n");
    }
}

/// Appends an object with the members of `format` to `line`.
pub(super) fn write_format(line: &mut Vec<u8>, format: &StaticFormat, source: &Source<'_>) {
    line.reserve(1 << 10);
    line.extend_from_slice(b"{");
    let first = format.first.iter().chain(format.members).map(|(name, variable)| (*name, variable));
    write_members(line, first, source);
    line.extend_from_slice(format.end.as_bytes());
}

/// A format with constant members.
pub(super) struct StaticFormat {
    /// Members that must be first.
    pub(super) first: &'static [(&'static str, Variable)],
    pub(super) members: &'static [(&'static str, Variable)],
    /// The text after the members: constant members, a brace and a line break.
    pub(super) end: &'static str,
}

/// Writes members with commas between them. Each name begins with a comma.
fn write_members<'m>(
    line: &mut Vec<u8>,
    members: impl Iterator<Item = (&'m str, &'m Variable)>,
    source: &Source<'_>,
) {
    let start = line.len();
    for (name, variable) in members {
        let value = variable.value(source);
        if matches!(value, Value::None) {
            continue;
        }
        // The first member has no comma.
        let name = if line.len() == start { &name[1..] } else { name };
        line.extend_from_slice(name.as_bytes());
        write_value(line, &value);
    }
}

fn write_value(line: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) => {
            line.push(b'"');
            write_json_text(line, text);
            line.push(b'"');
        }
        Value::List(text) => {
            line.extend_from_slice(b"[\"");
            write_json_text(line, text);
            line.extend_from_slice(b"\"]");
        }
        Value::Timestamp(..) => {
            line.push(b'"');
            write_plain(line, value);
            line.push(b'"');
        }
        Value::Number(_) | Value::Seconds(_) | Value::Boolean(_) | Value::None => write_plain(line, value),
    }
}

/// Writes a value that contains no text from clients.
pub(super) fn write_plain(line: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Number(number) => line.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Seconds(time) => {
            line.extend_from_slice(itoa::Buffer::new().format(time.as_secs()).as_bytes());
            write_fraction(line, time.subsec_micros());
        }
        Value::Boolean(value) => line.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Timestamp(second, microseconds) => {
            line.extend_from_slice(second.trim_end_matches('Z').as_bytes());
            write_fraction(line, *microseconds);
            line.push(b'Z');
        }
        Value::Text(_) | Value::List(_) | Value::None => {}
    }
}

/// Writes a point and six digits.
fn write_fraction(line: &mut Vec<u8>, microseconds: u32) {
    line.push(b'.');
    let mut rest = microseconds;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    line.extend_from_slice(&digits);
}
