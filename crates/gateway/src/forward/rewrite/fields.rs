//! Rules that remove, set and add headers.

use std::fmt;

use thruway_message::{FieldName, FieldValue};
use thruway_server::{Request, Response};

use super::InvalidRewrite;
use super::template::{Placeholder, RoutePaths, Template};
use crate::forward::fields::read_alike;
use crate::forward::request_id::RequestId;

/// Rules that remove, set and add header fields, in this order. Values may contain placeholders, which the
/// gateway replaces by properties of the request. The placeholders are `{client}`, `{host}`, `{path}`,
/// `{query}`, `{request_id}`, `{scheme}`, `{rest}`, `{tls_client_subject}`, `{tls_client_names}`,
/// `{tls_client_fingerprint}`, `{tls_server_name}`, `{tls_version}`, the parameters of the route's path
/// pattern, and the groups of its regular expression. Write `{{` and `}}` for literal braces. In
/// `{tls_client_names}`, the type precedes each name, as in `DNS:ada.example,URI:spiffe://example/ada`.
/// Commas within a name are percent-encoded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FieldRewrite {
    /// Names of the headers to remove or set, in lower case.
    pub(super) dropped: Vec<String>,
    /// Names and value templates of the headers to set or add.
    pub(super) lines: Vec<(String, Template)>,
    /// The rules for `Display`, in the order in which they were added.
    rules: Vec<Rule>,
}

/// A rule: its kind, and the name of its header.
type Rule = (RuleKind, String);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RuleKind {
    Removes,
    Sets,
    Adds,
}

impl FieldRewrite {
    /// Adds a rule that removes the header `name`.
    ///
    /// # Errors
    /// Returns an error if the header name is invalid, or if rules must not change this header.
    pub fn remove(&mut self, name: &str) -> Result<(), InvalidRewrite> {
        check_name(name)?;
        self.dropped.push(name.to_ascii_lowercase());
        self.rules.push((RuleKind::Removes, name.to_owned()));
        Ok(())
    }

    /// Ensures that forwarded requests do not contain the header `name`. This method adds a rule that removes
    /// the header, and deletes all existing rules that set or add the header. Mirrors use this method for
    /// headers that a copy of a request must not contain.
    ///
    /// # Errors
    /// Returns an error if the header name is invalid, or if rules must not change this header.
    pub fn withhold(&mut self, name: &str) -> Result<(), InvalidRewrite> {
        check_name(name)?;
        self.lines.retain(|(other, _)| !read_alike(other.as_bytes(), name.as_bytes()));
        self.rules.retain(|(_, other)| !read_alike(other.as_bytes(), name.as_bytes()));
        self.remove(name)
    }

    /// Adds a rule that sets the header `name` to `value`. `paths` is the path match of the route, which
    /// determines the available placeholders.
    ///
    /// # Errors
    /// Returns an error if the header name or the value is invalid, or if rules must not change this
    /// header.
    pub fn set<'r>(
        &mut self,
        name: &str,
        value: &str,
        paths: impl Into<RoutePaths<'r>>,
    ) -> Result<(), InvalidRewrite> {
        let line = line(name, value, paths.into())?;
        self.dropped.push(name.to_ascii_lowercase());
        self.lines.push(line);
        self.rules.push((RuleKind::Sets, name.to_owned()));
        Ok(())
    }

    /// Adds a rule that appends a header line with this name and value. `paths` determines the
    /// available placeholders.
    ///
    /// # Errors
    /// Returns an error if the header name or the value is invalid, or if rules must not change this
    /// header.
    pub fn add<'r>(
        &mut self,
        name: &str,
        value: &str,
        paths: impl Into<RoutePaths<'r>>,
    ) -> Result<(), InvalidRewrite> {
        self.lines.push(line(name, value, paths.into())?);
        self.rules.push((RuleKind::Adds, name.to_owned()));
        Ok(())
    }

    /// Returns `true` if there are no rules. Headers then stay unchanged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns `true` if a value contains the placeholder `{request_id}`.
    pub fn uses_request_id(&self) -> bool {
        let mut places = self.lines.iter().flat_map(|(_, value)| &value.parts);
        places.any(|(_, place)| *place == Placeholder::RequestId)
    }

    /// Appends the values with placeholders to `values`, filled with properties of `request`.
    pub(crate) fn fill_values(&self, request: &Request<'_>, values: &mut Vec<String>) {
        let filled = self.lines.iter().filter(|(_, value)| !value.parts.is_empty());
        values.extend(filled.map(|(_, value)| value.fill(request, &RequestId::default())));
    }

    /// Returns the number of values that [`fill_values`](Self::fill_values) appends.
    pub(crate) fn filled_count(&self) -> usize {
        self.lines.iter().filter(|(_, value)| !value.parts.is_empty()).count()
    }

    /// Applies the rules to `response`. `filled` are the values from [`fill_values`](Self::fill_values).
    pub(crate) fn apply(&self, response: &mut Response, filled: &[String]) {
        let mut filled = filled.iter();
        self.dropped.iter().for_each(|name| response.remove_field(name));
        for (name, value) in &self.lines {
            let value = if value.parts.is_empty() { Some(&value.end) } else { filled.next() };
            // If text from the client makes the value invalid, the response does not get this header.
            let _ = value.map(|value| response.append_field(name, value));
        }
    }

    /// Returns `true` if the rules remove headers with this name. Underscores count as hyphens, because
    /// some servers treat underscores in header names as hyphens.
    pub(crate) fn drops(&self, name: FieldName<'_>) -> bool {
        self.dropped.iter().any(|dropped| read_alike(name.as_bytes(), dropped.as_bytes()))
    }

    /// Appends the header lines to set and add. Leaves out a line if text from the client makes its value
    /// invalid.
    pub(crate) fn write(&self, lines: &mut Vec<u8>, request: &Request<'_>, id: &RequestId) {
        for (name, value) in &self.lines {
            let value = value.fill(request, id);
            if FieldValue::new(value.as_bytes()).is_ok() {
                lines.extend_from_slice(name.as_bytes());
                lines.extend_from_slice(b": ");
                lines.extend_from_slice(value.as_bytes());
                lines.extend_from_slice(b"\r\n");
            }
        }
    }
}

fn line(name: &str, value: &str, paths: RoutePaths<'_>) -> Result<(String, Template), InvalidRewrite> {
    check_name(name)?;
    if FieldValue::new(value.as_bytes()).is_err() {
        return Err(InvalidRewrite::FieldValue);
    }
    let template = Template::parse(value, |name| Placeholder::named(name, paths))?;
    Ok((name.to_owned(), template.with_groups_of(paths)))
}

fn check_name(name: &str) -> Result<(), InvalidRewrite> {
    if FieldName::new(name.as_bytes()).is_err() {
        return Err(InvalidRewrite::FieldName);
    }
    let is_own = OWN_FIELDS.iter().any(|own| read_alike(name.as_bytes(), own.as_bytes()));
    if is_own { Err(InvalidRewrite::FieldOfGateway) } else { Ok(()) }
}

/// Writes the rules as text, separated by commas.
impl fmt::Display for FieldRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (kind, name)) in self.rules.iter().enumerate() {
            let verb = match kind {
                RuleKind::Removes => "removes",
                RuleKind::Sets => "sets",
                RuleKind::Adds => "adds",
            };
            write!(f, "{}{verb} {name}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Headers that rules must not change: headers of the connection (RFC 9110 §7.6.1), headers that frame
/// messages, headers with a separate setting, and headers that the server sets.
const OWN_FIELDS: [&str; 19] = [
    "connection",
    "content-length",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "http2-settings",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMatch;

    #[test]
    fn rewrite_cannot_change_headers_that_the_gateway_controls() {
        let paths = PathMatch::Exact("/".to_owned());
        for name in OWN_FIELDS {
            for name in [name.to_owned(), name.to_uppercase(), name.replace('-', "_")] {
                let mut fields = FieldRewrite::default();
                let expected = Err(InvalidRewrite::FieldOfGateway);
                assert_eq!(fields.set(&name, "a", &paths), expected, "{name}");
                assert_eq!(fields.add(&name, "a", &paths), expected, "{name}");
                assert_eq!(fields.remove(&name), expected, "{name}");
                assert!(fields.is_empty());
            }
        }
    }

    #[test]
    fn invalid_header_name_or_value_is_an_error() {
        let paths = PathMatch::Exact("/".to_owned());
        let mut fields = FieldRewrite::default();
        for (name, value, error) in [
            ("A b", "c", InvalidRewrite::FieldName),
            ("", "c", InvalidRewrite::FieldName),
            ("A:", "c", InvalidRewrite::FieldName),
            ("A", "b\r\nC: d", InvalidRewrite::FieldValue),
            ("A", "\0", InvalidRewrite::FieldValue),
            ("A", "{rest}", InvalidRewrite::Placeholder),
            ("A", "{", InvalidRewrite::Braces),
        ] {
            assert_eq!(fields.set(name, value, &paths), Err(error), "{name} {value}");
            assert_eq!(fields.add(name, value, &paths), Err(error), "{name} {value}");
        }
        assert!(fields.is_empty());
    }

    #[test]
    fn withheld_header_is_neither_set_nor_added() {
        let paths = PathMatch::Exact("/".to_owned());
        let mut fields = FieldRewrite::default();
        fields.set("X_Key", "a", &paths).unwrap();
        fields.add("x-key", "a", &paths).unwrap();
        fields.set("X-Other", "a", &paths).unwrap();
        fields.withhold("X-Key").unwrap();
        assert_eq!(fields.lines.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["X-Other"]);
        assert!(fields.drops(FieldName::new(b"x-key").unwrap()));
        assert_eq!(fields.withhold("Host"), Err(InvalidRewrite::FieldOfGateway));
    }

    /// Regression test: the text of the rules still contained the deleted rules.
    #[test]
    fn display_omits_rules_that_withhold_has_deleted() {
        let paths = PathMatch::Exact("/".to_owned());
        let mut fields = FieldRewrite::default();
        fields.set("X_Key", "a", &paths).unwrap();
        fields.add("x-key", "a", &paths).unwrap();
        fields.remove("X-Other").unwrap();
        assert_eq!(fields.to_string(), "sets X_Key, adds x-key, removes X-Other");
        fields.withhold("X-Key").unwrap();
        assert_eq!(fields.to_string(), "removes X-Other, removes X-Key");
    }

    #[test]
    fn set_header_also_drops_its_underscore_variant() {
        let mut fields = FieldRewrite::default();
        fields.set("X-User", "a", &PathMatch::Exact("/".to_owned())).unwrap();
        let drops = |name: &str| fields.drops(FieldName::new(name.as_bytes()).unwrap());
        assert!(drops("x-user") && drops("X_USER") && !drops("X-Users"));
    }
}
