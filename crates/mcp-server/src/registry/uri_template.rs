//! Parsing and matching of URI templates (RFC 6570). Only the forms `{name}` and `{+name}` are supported.

use std::fmt;

use percent_encoding::percent_decode_str;

/// A parsed URI template.
#[derive(Clone, Debug)]
pub(crate) struct UriTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(String),
    /// `{name}`: matches any characters except `/`, `?` and `#`.
    Segment(String),
    /// `{+name}`: matches any characters.
    Rest(String),
}

/// The parameters of a URI that matched a template. The values of the parameters are percent-decoded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UriParameters {
    uri: String,
    parameters: Vec<(String, String)>,
}

/// The error for an invalid URI template. Such a template has an unsupported form, unbalanced braces, or
/// two adjacent expressions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidUriTemplate;

impl UriParameters {
    pub(crate) const fn without_parameters(uri: String) -> Self {
        Self { uri, parameters: Vec::new() }
    }

    /// Returns the URI, and the names and values of the parameters.
    pub(super) fn into_parts(self) -> (String, Vec<(String, String)>) {
        (self.uri, self.parameters)
    }

    /// Returns the whole URI that the client requested.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the parameter `name`, or an empty string if the template has no such parameter.
    ///
    /// The value is percent-decoded and can be any text. Even a value of `{name}` can contain `/`, as in
    /// `../x`. A handler must check the value before it uses the value in a file path.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(parameter, _)| parameter == name).map_or("", |(_, value)| value)
    }
}

impl UriTemplate {
    pub(crate) fn parse(template: &str) -> Result<Self, InvalidUriTemplate> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}').ok_or(InvalidUriTemplate)?;
            if literal.contains('}') || (literal.is_empty() && !parts.is_empty()) {
                return Err(InvalidUriTemplate);
            }
            parts.push(Part::Literal(literal.to_owned()));
            let (part, name): (fn(String) -> Part, _) = match expression.strip_prefix('+') {
                Some(name) => (Part::Rest, name),
                None => (Part::Segment, expression),
            };
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(InvalidUriTemplate);
            }
            parts.push(part(name.to_owned()));
            rest = after;
        }
        if rest.contains('}') {
            return Err(InvalidUriTemplate);
        }
        parts.push(Part::Literal(rest.to_owned()));
        Ok(Self { parts })
    }

    /// Returns the parameters if `uri` matches the template.
    pub(crate) fn matches(&self, uri: &str) -> Option<UriParameters> {
        let mut parameters = Vec::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let (name, may_have_slash) = match part {
                Part::Literal(literal) => {
                    rest = rest.strip_prefix(literal.as_str())?;
                    continue;
                }
                Part::Segment(name) => (name, false),
                Part::Rest(name) => (name, true),
            };
            let (value, after) = split(rest, parts.peek().copied(), parts.len() == 1)?;
            if value.is_empty() || (!may_have_slash && value.contains(['/', '?', '#'])) {
                return None;
            }
            let value = percent_decode_str(value).decode_utf8().ok()?;
            parameters.push((name.clone(), value.into_owned()));
            rest = after;
        }
        rest.is_empty().then(|| UriParameters { uri: uri.to_owned(), parameters })
    }
}

/// Splits `rest` into the value of an expression and the text after the value. `next` is the literal after
/// the expression. The last literal of the template must match the end of the URI, even if the literal also
/// occurs earlier.
fn split<'u>(rest: &'u str, next: Option<&Part>, is_last: bool) -> Option<(&'u str, &'u str)> {
    let Some(Part::Literal(literal)) = next else { return Some((rest, "")) };
    let end = if is_last { rest.strip_suffix(literal.as_str())?.len() } else { rest.find(literal.as_str())? };
    Some(rest.split_at(end))
}

impl fmt::Display for InvalidUriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the URI template is invalid: only literals, `{name}` and `{+name}` are supported")
    }
}

impl std::error::Error for InvalidUriTemplate {}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        UriTemplate::parse(template).unwrap().matches(uri).map(|matched| matched.parameters)
    }

    #[test]
    fn template_matches_parameters_between_literals() {
        let id = |value: &str| Some(vec![("id".to_owned(), value.to_owned())]);
        assert_eq!(matched("test://template/{id}/data", "test://template/5/data"), id("5"));
        assert_eq!(matched("test://template/{id}/data", "test://template/a%2Fb/data"), id("a/b"));
        assert_eq!(matched("file:///{+id}", "file:///a/b"), id("a/b"));
        assert_eq!(matched("file:///{+id}.txt", "file:///a.txt/b.txt"), id("a.txt/b"));
        assert_eq!(matched("file:///{+id}.txt", "file:///a.txt/b"), None);
        for uri in [
            "test://template//data",
            "test://template/5/6/data",
            "test://template/5/data/",
            "test://t/%ff/data",
        ] {
            assert_eq!(matched("test://template/{id}/data", uri), None, "{uri}");
        }
    }

    #[test]
    fn unsupported_uri_templates_are_rejected() {
        for template in ["a{", "a}", "a{}", "{a}{b}", "{?q}", "{a,b}", "a{b{c}}"] {
            assert_eq!(UriTemplate::parse(template).err(), Some(InvalidUriTemplate), "{template}");
        }
    }
}
