//! Parses the text of a config, and explains errors in terms of TOML.

use std::borrow::Cow;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer as TomlDeserializer};

use super::values::{DURATION, Filled};
use crate::config::failure::{Source, UnknownKeys, in_order};
use crate::config::include::parse_files;
use crate::config::key_errors::{
    KeyPlace, hint_about_other_section, hint_about_outer_table, remove_key, remove_value,
};
use crate::config::whole_file::Raw;
use crate::config::{Failure, environment};

/// The keys of a config, and errors about unknown keys, which the parser has skipped.
pub(in crate::config) struct Parsed {
    pub(in crate::config) raw: Raw,
    pub(in crate::config) unknown: UnknownKeys,
}

/// Parses the text of a config, and replaces environment variables by their values.
///
/// # Errors
/// Returns all errors about values of the wrong type, and the errors about unknown keys that it has found until then. If
/// there are only errors about unknown keys, returns them in [`Parsed`], so that further checks can add their errors.
pub(in crate::config) fn parse(source: &Source) -> Result<Parsed, Failure> {
    let mut table = parse_files(source, |error, start| refusal(source, error, start, None))?;
    let filled = source.keep_filled(environment::fill_in(table.get_mut(), source)?);
    read(table, filled, source)
}

/// Parses a table. Values from environment variables are strings. If a key needs a number or boolean, this
/// function converts the string and parses the table again. After an error, it removes the wrong key and
/// parses the rest again, because the parser stops at the first error.
fn read<'f>(mut table: Spanned<DeTable<'f>>, filled: &'f Filled, source: &Source) -> Result<Parsed, Failure> {
    let (mut unknown, mut wrong) = (UnknownKeys::default(), Vec::new());
    loop {
        let error = match Raw::deserialize(TomlDeserializer::from(table.clone())) {
            Ok(raw) if wrong.is_empty() => return Ok(Parsed { raw, unknown }),
            Ok(_) => break,
            Err(error) => error,
        };
        let at = error.span().unwrap_or_default();
        if filled.retype(table.get_mut(), &at) {
            continue;
        }
        let is_key = Unknown::from_message(error.message()).is_some_and(|unknown| unknown.is_key());
        let remove = if is_key { remove_key } else { remove_value };
        let place = remove(table.get_mut(), &at);
        let is_of_other_type = filled.is_at(&at) && error.message().starts_with("invalid type");
        let failure = refusal(source, &error, 0, place.as_ref());
        let failure = if is_of_other_type { failure.with_hint(FILLED_HINT) } else { failure };
        let errors = wrong.len() + unknown.failures.len();
        match place {
            Some(place) if is_key && errors < ERRORS_MAX => {
                unknown.add(at.start, failure, place.tables, place.is_section);
            }
            Some(_) if errors < ERRORS_MAX => wrong.push((at.start, failure)),
            // The parser may miss a key that was removed.
            None if error.message().starts_with("missing field") && !wrong.is_empty() => break,
            _ => {
                wrong.push((at.start, failure));
                break;
            }
        }
    }
    Err(Failure::joined(in_order(wrong.into_iter().chain(unknown.failures).collect())))
}

/// Maximum number of reported errors about keys. Each of them needs another pass over the file.
const ERRORS_MAX: usize = 50;

/// Returns the failure for an error of the TOML parser. `start` is the position in the text of `source` from
/// which the error counts its own position. `place` is the place of the wrong key or value, if it is known.
fn refusal(source: &Source, error: &toml::de::Error, start: usize, place: Option<&KeyPlace>) -> Failure {
    let span = error.span().unwrap_or(0..0);
    let span = span.start + start..span.end + start;
    if let Some(unknown) = Unknown::from_message(error.message()) {
        return source.failure(span, unknown.message()).with_hint(unknown.hint(place));
    }
    let message = without_value(error.message(), source.hides(&span));
    let failure = source.failure(span, without_types(&message));
    match hint_about_type(error.message(), place) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Returns a hint for a value of the wrong type.
fn hint_about_type(message: &str, place: Option<&KeyPlace>) -> Option<String> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let key = place.and_then(|place| place.keys.last()).map_or("", String::as_str);
    let number = found.split('`').nth(1).filter(|number| !number.starts_with('-'));
    let hint = match (found.split(' ').next()?, expected.split(' ').next()?) {
        ("map", "a") if expected.starts_with("a sequence") => "this key is an array of tables: write `[[…]]`",
        ("integer", "a") if ADDRESS_KEYS.contains(&key) => {
            let port = number.filter(|port| port.parse::<u16>().is_ok()).unwrap_or("8080");
            return Some(format!("write an address in quotes: `\"127.0.0.1:{port}\"`"));
        }
        ("integer", "a") if expected == DURATION => {
            let number = number.unwrap_or("30");
            return Some(format!(
                "strings and durations need quotes, and durations need a unit: `\"{number}s\"`"
            ));
        }
        ("integer" | "floating", "a") if expected != "a sequence" => {
            "strings and durations need quotes: `\"30s\"`"
        }
        ("string", "u16" | "u32" | "u64" | "usize") => "write numbers without quotes and without a unit",
        ("string" | "integer", "a") if expected == "a sequence" => {
            return Some(format!("write a list in brackets: `{key} = [\"…\"]`"));
        }
        ("string", "a") if expected == "a boolean" => "write `true` or `false` without quotes",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Keys whose values are addresses.
const ADDRESS_KEYS: [&str; 4] = ["address", "otlp", "peer_listen", "servers"];

/// Returns the message without the wrong value. The value may be a secret if it is masked in the excerpt, or
/// if it is a string at a key for another type. The excerpt shows the line of the value.
fn without_value(message: &str, is_hidden: bool) -> Cow<'_, str> {
    if is_hidden
        && let Some((found, expected)) = message.split_once(", expected ")
        && let Some((kind, _)) = found.split_once(" `")
    {
        return format!("{kind}, expected {expected}").into();
    }
    let found = ["invalid type: string ", "invalid value: string "]
        .iter()
        .find(|start| message.starts_with(*start))
        .zip(message.rfind(", expected "));
    match found {
        Some((start, end)) if start.len() <= end => format!("{}{}", start.trim_end(), &message[end..]).into(),
        _ => message.into(),
    }
}

/// Replaces the names of Rust types in `message` by the names of TOML types.
fn without_types(message: &str) -> Cow<'_, str> {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.into() };
    let found = found.replace("invalid type: map", "invalid type: table");
    let found = found.replace("invalid type: sequence", "invalid type: array");
    format!("{found}, expected {}", in_words_of_toml(expected)).into()
}

/// Returns a description of the type that serde expected, in terms of TOML.
fn in_words_of_toml(expected: &str) -> &str {
    let is_struct = ["struct ", "a map", "map"].iter().any(|start| expected.starts_with(start));
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of at least 0",
        "a nonzero u64" => "a whole number of at least 1",
        "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "path string" => "a path",
        "a sequence" => "an array",
        _ if is_struct => "a table",
        _ if expected.contains("enum") || expected.contains("variant") => "a string",
        _ => expected,
    }
}

/// An unknown key or value, with the expected names.
struct Unknown<'m> {
    what: &'static str,
    name: &'m str,
    expected: Vec<&'m str>,
}

impl<'m> Unknown<'m> {
    /// Parses an error of serde: ``unknown field `adress`, expected `address` or …``.
    fn from_message(message: &'m str) -> Option<Self> {
        let (what, rest) = match message.strip_prefix("unknown field ") {
            Some(rest) => ("key", rest),
            None => ("value", message.strip_prefix("unknown variant ")?),
        };
        let mut quoted = rest.split('`').skip(1).step_by(2);
        Some(Self { what, name: quoted.next()?, expected: quoted.collect() })
    }

    fn message(&self) -> String {
        format!("unknown {} `{}`", self.what, self.name)
    }

    fn is_key(&self) -> bool {
        self.what == "key"
    }

    /// Returns a hint with the new name of a renamed key, the table of a misplaced key, a similar name, or
    /// all possible names.
    fn hint(&self, place: Option<&KeyPlace>) -> String {
        let renamed = RENAMED_KEYS.iter().find(|(old, new)| *old == self.name && self.expected.contains(new));
        if let Some((old, new)) = renamed {
            return format!("`{old}` was renamed to `{new}`");
        }
        let removed =
            REMOVED_KEYS.iter().find(|(old, new, _)| *old == self.name && self.expected.contains(new));
        if let Some((old, _, hint)) = removed {
            return format!("`{old}` was removed: {hint}");
        }
        if let Some(hint) = place.and_then(|place| hint_about_outer_table(place, self.name)) {
            return hint;
        }
        let meant = self
            .expected
            .iter()
            .map(|name| (strsim::jaro_winkler(self.name, name), name))
            .filter(|(likeness, _)| *likeness > LIKENESS_MIN)
            .max_by(|(one, _), (other, _)| one.total_cmp(other));
        if let Some((_, name)) = meant {
            return format!("did you mean `{name}`?");
        }
        let here = format!("possible here: `{}`", self.expected.join("`, `"));
        match place.and_then(|_| hint_about_other_section(self.name)) {
            Some(elsewhere) => format!("{elsewhere}; {here}"),
            None => here,
        }
    }
}

/// Removed keys, each with another key of the same table and a hint.
const REMOVED_KEYS: [(&str, &str, &str); 1] = [(
    "allow_remote",
    "authentication",
    "an address that other machines can reach needs `[admin.tls]` and `[admin.authentication]`",
)];

/// Old and new names of renamed keys. Thruway accepts only the new names.
const RENAMED_KEYS: [(&str, &str); 19] = [
    ("answer", "respond"),
    ("content", "body"),
    ("content_bytes", "body_bytes"),
    ("content_bytes_max", "body_bytes_max"),
    ("content_idle_timeout", "body_idle_timeout"),
    ("content_rate_min", "body_bytes_per_second_min"),
    ("content_window_bytes", "body_buffer_bytes"),
    ("field_lines", "headers"),
    ("fields", "headers"),
    ("head_timeout", "response_header_timeout"),
    ("header_section", "header"),
    ("header_section_bytes", "header_bytes"),
    ("keys_kept_for", "keys_refresh_interval"),
    ("length_max", "requests_max"),
    ("minimum_bytes", "bytes_min"),
    ("response_field_lines", "response_headers"),
    ("response_header_section_bytes", "response_header_bytes"),
    ("trailer_section_bytes", "trailer_bytes"),
    ("user_field", "user_header"),
];

/// Hint for an environment variable with a value of the wrong type.
const FILLED_HINT: &str = "the value comes from an environment variable: set the variable to a number without a unit, `true` or `false`";

/// Minimum similarity of a suggested name. This value accepts one missing, additional or wrong letter in a
/// short name.
const LIKENESS_MIN: f64 = 0.8;
