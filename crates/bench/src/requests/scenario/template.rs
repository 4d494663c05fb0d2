//! Texts with variables: `/orders/{{ id }}`. A filter encodes the value: `{{ name | urlencode }}`.

use std::fmt::Write as _;

/// A text that was split at its variables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Value(Source, Option<Filter>),
}

/// The place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The number of the iteration, from 0.
    Iteration,
    /// The number of the virtual user, from 0.
    User,
    /// 16 random hexadecimal digits, other digits for each use.
    Random,
    /// A column of a data table.
    Column {
        /// Index of the table.
        table: usize,
        /// Index of the column.
        column: usize,
    },
    /// The value with this index among the values that the steps extract.
    Extracted(usize),
}

/// The meaning of a name in a template.
pub(super) enum Meaning {
    /// The value is known when the file is read.
    Constant(String),
    /// The value is known when the request is sent.
    Source(Source),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Filter {
    /// Percent-encodes all bytes except letters, digits, `-`, `.`, `_` and `~` (RFC 3986 §2.3).
    UrlEncode,
    /// Escapes the value for a JSON string, without the quotes.
    Json,
}

/// The values of an iteration.
pub(super) trait Values {
    /// Appends the value of `source` to `text`.
    fn write(&mut self, source: Source, text: &mut String);
}

impl Template {
    /// Splits `text` at its variables. `meaning` resolves the name of a variable.
    ///
    /// # Errors
    /// Returns a message if a variable is unknown, or if the syntax is wrong.
    pub(super) fn parse(
        text: &str,
        meaning: &mut dyn FnMut(&str) -> Result<Meaning, String>,
    ) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut fixed = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            fixed.push_str(before);
            let (inside, after) = after.split_once("}}").ok_or("`{{` has no matching `}}`")?;
            rest = after;
            let (name, filter) = match inside.split_once('|') {
                Some((name, filter)) => (name.trim(), Some(Filter::named(filter.trim())?)),
                None => (inside.trim(), None),
            };
            match meaning(name)? {
                Meaning::Constant(value) => encode(&value, filter, &mut fixed),
                Meaning::Source(source) => {
                    pieces.push(Piece::Text(std::mem::take(&mut fixed)));
                    pieces.push(Piece::Value(source, filter));
                }
            }
        }
        fixed.push_str(rest);
        pieces.push(Piece::Text(fixed));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// Returns a template without variables.
    pub(super) fn of_text(text: &str) -> Self {
        Self(vec![Piece::Text(text.to_owned())])
    }

    /// Returns the text if it has no variables.
    pub(super) fn fixed(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text before the first variable.
    pub(super) fn beginning(&self) -> &str {
        if let Some(Piece::Text(text)) = self.0.first() { text } else { "" }
    }

    /// Appends the text with its values to `output`.
    pub(super) fn write(&self, values: &mut dyn Values, output: &mut String) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => output.push_str(text),
                Piece::Value(source, None) => values.write(*source, output),
                Piece::Value(source, filter) => {
                    let mut value = String::new();
                    values.write(*source, &mut value);
                    encode(&value, *filter, output);
                }
            }
        }
    }
}

impl Filter {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "urlencode" => Ok(Self::UrlEncode),
            "json" => Ok(Self::Json),
            _ => Err(format!("unknown filter `{name}`: expected `urlencode` or `json`")),
        }
    }
}

fn encode(value: &str, filter: Option<Filter>, output: &mut String) {
    match filter {
        None => output.push_str(value),
        Some(Filter::UrlEncode) => {
            for byte in value.bytes() {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    output.push(char::from(byte));
                } else {
                    let _ = write!(output, "%{byte:02X}");
                }
            }
        }
        Some(Filter::Json) => {
            let quoted = serde_json::Value::from(value).to_string();
            output.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Values for Fixed {
        fn write(&mut self, source: Source, text: &mut String) {
            text.push_str(match source {
                Source::Extracted(_) => "a b/\"c\"\n",
                _ => "7",
            });
        }
    }

    fn meaning(name: &str) -> Result<Meaning, String> {
        match name {
            "token" => Ok(Meaning::Source(Source::Extracted(0))),
            "iteration" => Ok(Meaning::Source(Source::Iteration)),
            "host" => Ok(Meaning::Constant("x y".to_owned())),
            _ => Err(format!("unknown variable `{name}`")),
        }
    }

    fn written(text: &str) -> String {
        let mut output = String::new();
        Template::parse(text, &mut meaning).unwrap().write(&mut Fixed, &mut output);
        output
    }

    #[test]
    fn variables_and_filters_are_applied() {
        assert_eq!(written("/a/{{iteration}}/{{ token | urlencode }}?b"), "/a/7/a%20b%2F%22c%22%0A?b");
        assert_eq!(written(r#"{"a":{"b":"{{ token | json }}"}}"#), r#"{"a":{"b":"a b/\"c\"\n"}}"#);
        assert_eq!(written("{{ host | urlencode }}-{ {host}"), "x%20y-{ {host}");
        let constant = Template::parse("{{ host }}!", &mut meaning).unwrap();
        assert_eq!(constant.fixed(), Some("x y!"));
        let varying = Template::parse("/a{{ token }}", &mut meaning).unwrap();
        assert_eq!((varying.fixed(), varying.beginning()), (None, "/a"));
        assert_eq!(Template::parse("", &mut meaning).unwrap().fixed(), Some(""));
    }

    #[test]
    fn wrong_syntax_is_explained() {
        for (text, error) in [
            ("{{ token", "`{{` has no matching `}}`"),
            ("{{ other }}", "unknown variable `other`"),
            ("{{ token | upper }}", "unknown filter `upper`: expected `urlencode` or `json`"),
        ] {
            assert_eq!(Template::parse(text, &mut meaning).unwrap_err(), error);
        }
    }
}
