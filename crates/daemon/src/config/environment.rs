//! Replaces `${NAME}` in strings of a config by the value of an environment variable. If a key needs a number
//! or a boolean, its value may also be such a string.

use std::borrow::Cow;
use std::env::VarError;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Failure;
use super::failure::Source;
use super::values::Filled;

/// The error if a variable in a string cannot be replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
enum SubstitutionError {
    /// `$` is followed by neither `{` nor `$`.
    Dollar,
    /// `${` is not closed by `}`.
    Open,
    /// The text between the braces is not a valid name of a variable.
    Name(String),
    /// The value of the variable is not valid UTF-8.
    NotText(String),
    /// The variable is not set.
    Undefined(String),
}

/// Replaces the variables in all strings of `table`.
///
/// # Errors
/// Returns one error for each variable that cannot be replaced.
pub(super) fn fill_in(table: &mut DeTable<'_>, source: &Source) -> Result<Filled, Failure> {
    let (mut filled, mut failures) = (Filled::default(), Failures::new());
    for (key, value) in table.iter_mut() {
        fill_in_value(key.get_ref(), value, source, &mut filled, &mut failures);
    }
    // `table` is sorted by keys, so this function sorts the errors by their position in the file.
    failures.sort_by_key(|(start, _)| *start);
    Failure::all(failures.into_iter().map(|(_, failure)| failure).collect()).map_or(Ok(filled), Err)
}

/// Errors, each with its position in the file.
type Failures = Vec<(usize, Failure)>;

/// Replaces the variables in the value of `key`.
fn fill_in_value(
    key: &str,
    value: &mut Spanned<DeValue<'_>>,
    source: &Source,
    filled: &mut Filled,
    failures: &mut Failures,
) {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) if text.contains('$') => {
            match filled_in(text, REGEX_KEYS.contains(&key), |name| std::env::var(name)) {
                Ok(value) if value == **text => {}
                Ok(value) => {
                    // `$$` alone is no value of a variable, so errors may show the text.
                    if text.replace("$$", "").contains("${") {
                        filled.0.push((span, value.clone()));
                    }
                    *text = Cow::Owned(value);
                }
                Err(error) => {
                    let failure = match &error {
                        // The message shows the name of the variable even if the key is for a secret, because
                        // the name is not secret.
                        SubstitutionError::NotText(_) | SubstitutionError::Undefined(_) => {
                            source.failure_without_values(&span, &error)
                        }
                        _ => source.failure(span.clone(), &error),
                    };
                    let hint = match (&error, nginx_hint(text)) {
                        (SubstitutionError::Dollar, Some(hint)) => hint,
                        _ => error.hint(source.hides(&span)),
                    };
                    failures.push((span.start, failure.with_hint(hint)));
                }
            }
        }
        DeValue::Array(values) => {
            values.iter_mut().for_each(|value| fill_in_value(key, value, source, filled, failures));
        }
        DeValue::Table(table) => {
            table
                .iter_mut()
                .for_each(|(key, value)| fill_in_value(key.get_ref(), value, source, filled, failures));
        }
        _ => {}
    }
}

/// Returns `text` with the values of its variables. `${NAME:-default}` becomes `default` if the variable is
/// not set or empty. If `is_regex` is `true`, a `$` before another character is a part of the text.
fn filled_in(
    text: &str,
    is_regex: bool,
    variable: impl Fn(&str) -> Result<String, VarError>,
) -> Result<String, SubstitutionError> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        rest = if let Some(after) = after.strip_prefix('$') {
            filled.push('$');
            after
        } else if is_regex && !after.starts_with('{') {
            filled.push('$');
            after
        } else {
            let after = after.strip_prefix('{').ok_or(SubstitutionError::Dollar)?;
            let (place, after) = after.split_once('}').ok_or(SubstitutionError::Open)?;
            filled.push_str(&value_of(place, &variable)?);
            after
        };
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Returns the value of a variable. `place` is `NAME` or `NAME:-default`.
fn value_of(
    place: &str,
    variable: impl Fn(&str) -> Result<String, VarError>,
) -> Result<String, SubstitutionError> {
    let (name, default) = place.split_once(":-").map_or((place, None), |(name, text)| (name, Some(text)));
    if !is_name(name) {
        return Err(SubstitutionError::Name(name.to_owned()));
    }
    match (variable(name), default) {
        (Err(VarError::NotUnicode(_)), _) => Err(SubstitutionError::NotText(name.to_owned())),
        (Ok(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Ok(value), _) => Ok(value),
        (Err(VarError::NotPresent), Some(default)) => Ok(default.to_owned()),
        (Err(VarError::NotPresent), None) => Err(SubstitutionError::Undefined(name.to_owned())),
    }
}

/// Returns a hint if `text` contains a variable of nginx.
fn nginx_hint(text: &str) -> Option<String> {
    let starts = text.match_indices('$').map(|(at, _)| &text[at + 1..]);
    let mut names = starts.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    });
    let (name, own) = names.find_map(|name| NGINX_VARIABLES.iter().find(|(nginx, _)| *nginx == name))?;
    Some(format!("write `{own}` in place of the variable `${name}` of nginx; a dollar sign is `$$`"))
}

/// Variables of nginx, each with the placeholder that has a similar value.
const NGINX_VARIABLES: [(&str, &str); 10] = [
    ("args", "{query}"),
    ("document_uri", "{path}"),
    ("host", "{host}"),
    ("http_host", "{host}"),
    ("is_args", "{query}"),
    ("query_string", "{query}"),
    ("remote_addr", "{client}"),
    ("request_uri", "{path}{query}"),
    ("scheme", "{scheme}"),
    ("uri", "{path}"),
];

/// Returns `true` if shells accept the text as the name of a variable.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|byte| byte.is_ascii_alphanumeric() || byte == '_')
}

/// Keys whose values are regular expressions. There, `$` stands for the end of the text.
const REGEX_KEYS: [&str; 2] = ["path_regex", "regex"];

impl SubstitutionError {
    /// Returns a hint for the operator. `is_secret` is `true` if the value of the key may be a secret. A
    /// config must not contain a default for a secret.
    fn hint(&self, is_secret: bool) -> String {
        match self {
            Self::Dollar | Self::Open => {
                "write a dollar sign as `$$`, and a variable as `${NAME}`".to_owned()
            }
            Self::Name(_) => {
                "a variable name consists of letters, digits and `_`, as in `${NAME}`".to_owned()
            }
            Self::NotText(_) => "set the variable to a value in UTF-8".to_owned(),
            Self::Undefined(_) if is_secret => "set the variable before the start".to_owned(),
            Self::Undefined(name) => {
                format!(
                    "set the variable before the start, or write a default if the value is not secret: `${{{name}:-default}}`"
                )
            }
        }
    }
}

impl fmt::Display for SubstitutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dollar => f.write_str("`$` is followed by neither `{` nor `$`"),
            Self::Open => f.write_str("`${` is not closed"),
            Self::Name(name) => write!(f, "`{}` is not the name of a variable", name.escape_debug()),
            Self::NotText(name) => write!(f, "the environment variable `{name}` is not valid UTF-8"),
            Self::Undefined(name) => write!(f, "the environment variable `{name}` is not set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn substitute(text: &str) -> Result<String, SubstitutionError> {
        filled_in_text(text, false)
    }

    fn filled_in_text(text: &str, is_regex: bool) -> Result<String, SubstitutionError> {
        filled_in(text, is_regex, |name| match name {
            "HOST" => Ok("h".to_owned()),
            "_EMPTY1" => Ok(String::new()),
            "BYTES" => Err(VarError::NotUnicode(OsString::new())),
            _ => Err(VarError::NotPresent),
        })
    }

    #[test]
    fn variables_and_defaults_are_substituted() {
        for (text, expected) in [
            ("", ""),
            ("http://${HOST}{path}", "http://h{path}"),
            ("${HOST}${HOST}", "hh"),
            ("a${_EMPTY1}b", "ab"),
            ("${_EMPTY1:-x}", "x"),
            ("${PORT:-8080}", "8080"),
            ("${PORT:-}", ""),
            ("${HOST:-x}", "h"),
            ("5$$ and $${HOST}", "5$ and ${HOST}"),
        ] {
            assert_eq!(substitute(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn dollar_sign_in_a_regular_expression_needs_no_escape() {
        for (text, expected) in
            [(r"\.php$", r"\.php$"), (r"\.php$$", r"\.php$"), ("^${HOST}(a$|b)$", "^h(a$|b)$")]
        {
            assert_eq!(filled_in_text(text, true).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(filled_in_text("a${", true), Err(SubstitutionError::Open));
    }

    #[test]
    fn invalid_or_unset_variable_is_an_error() {
        for (text, error) in [
            ("5$", SubstitutionError::Dollar),
            ("$HOST", SubstitutionError::Dollar),
            ("${HOST", SubstitutionError::Open),
            ("${}", SubstitutionError::Name(String::new())),
            ("${1}", SubstitutionError::Name("1".to_owned())),
            ("${A-b}", SubstitutionError::Name("A-b".to_owned())),
            ("${BYTES:-x}", SubstitutionError::NotText("BYTES".to_owned())),
            ("${PORT}", SubstitutionError::Undefined("PORT".to_owned())),
        ] {
            assert_eq!(substitute(text), Err(error), "{text}");
        }
    }
}
