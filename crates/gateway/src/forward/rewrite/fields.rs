//! Rules that remove, set and add headers.

use std::fmt;

use thruway_message::{FieldName, FieldValue};
use thruway_server::Request;

use super::InvalidRewrite;
use super::template::{Placeholder, Template};
use crate::PathMatch;
use crate::forward::fields::read_alike;
use crate::forward::request_id::RequestId;

/// Fields of a message that are removed, set and added, in this order. Values may contain placeholders, which
/// are filled from the request: `{client}`, `{host}`, `{path}`, `{query}`, `{request_id}`, `{scheme}`,
/// `{rest}`, `{tls_client_subject}`, `{tls_client_names}`, `{tls_client_fingerprint}`, `{tls_server_name}`,
/// `{tls_version}`, and the parameters of the route's pattern. `{{` and `}}` are braces. `{tls_client_names}`
/// shows each name with its type, and percent-encodes commas within names:
/// `DNS:ada.example,URI:spiffe://example/ada`.
#[derive(Clone, Default, Debug)]
pub struct FieldRewrite {
    /// Names of removed and set headers, in lower case.
    pub(super) dropped: Vec<String>,
    /// Lines of set and added headers.
    pub(super) lines: Vec<(String, Template)>,
    /// The configured rules as text.
    said: Vec<String>,
}

impl FieldRewrite {
    /// Removes the header `name`.
    ///
    /// # Errors
    /// Returns the rule that the name breaks.
    pub fn remove(&mut self, name: &str) -> Result<(), InvalidRewrite> {
        check_name(name)?;
        self.dropped.push(name.to_ascii_lowercase());
        self.said.push(format!("removes {name}"));
        Ok(())
    }

    /// Removes the header `name`, even if another rule sets or adds it. For copies of requests that must not
    /// contain it.
    ///
    /// # Errors
    /// Returns the rule that the name breaks.
    pub fn withhold(&mut self, name: &str) -> Result<(), InvalidRewrite> {
        self.remove(name)?;
        self.lines.retain(|(other, _)| !read_alike(other.as_bytes(), name.as_bytes()));
        Ok(())
    }

    /// Sets the header `name` to `value`, in a route that matches `paths`.
    ///
    /// # Errors
    /// Returns the rule that the name or value breaks.
    pub fn set(&mut self, name: &str, value: &str, paths: &PathMatch) -> Result<(), InvalidRewrite> {
        let line = line(name, value, paths)?;
        self.dropped.push(name.to_ascii_lowercase());
        self.lines.push(line);
        self.said.push(format!("sets {name}"));
        Ok(())
    }

    /// Adds a line to the header `name`, in a route that matches `paths`.
    ///
    /// # Errors
    /// Returns the rule that the name or value breaks.
    pub fn add(&mut self, name: &str, value: &str, paths: &PathMatch) -> Result<(), InvalidRewrite> {
        self.lines.push(line(name, value, paths)?);
        self.said.push(format!("adds {name}"));
        Ok(())
    }

    /// Returns `true` if nothing is changed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Returns `true` if headers of this name are removed. Some servers read underscores as hyphens, so such
    /// names count too.
    pub(crate) fn drops(&self, name: FieldName<'_>) -> bool {
        self.dropped.iter().any(|dropped| read_alike(name.as_bytes(), dropped.as_bytes()))
    }

    /// Appends the set and added lines. Leaves out values that are invalid because of the client's text.
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

fn line(name: &str, value: &str, paths: &PathMatch) -> Result<(String, Template), InvalidRewrite> {
    check_name(name)?;
    if FieldValue::new(value.as_bytes()).is_err() {
        return Err(InvalidRewrite::FieldValue);
    }
    Ok((name.to_owned(), Template::parse(value, |name| Placeholder::named(name, paths))?))
}

fn check_name(name: &str) -> Result<(), InvalidRewrite> {
    if FieldName::new(name.as_bytes()).is_err() {
        return Err(InvalidRewrite::FieldName);
    }
    let is_own = OWN_FIELDS.iter().any(|own| read_alike(name.as_bytes(), own.as_bytes()));
    if is_own { Err(InvalidRewrite::FieldOfGateway) } else { Ok(()) }
}

/// Writes the changes, separated by commas.
impl fmt::Display for FieldRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said.join(", "))
    }
}

/// Fields of the connection (RFC 9110 §7.6.1) and of the framing, fields with keys of their own, and fields
/// that the server sets.
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

    #[test]
    fn what_frames_a_message_is_out_of_reach() {
        let paths = PathMatch::Exact("/".to_owned());
        for name in OWN_FIELDS {
            for name in [name.to_owned(), name.to_uppercase(), name.replace('-', "_")] {
                let mut fields = FieldRewrite::default();
                let refused = Err(InvalidRewrite::FieldOfGateway);
                assert_eq!(fields.set(&name, "a", &paths), refused, "{name}");
                assert_eq!(fields.add(&name, "a", &paths), refused, "{name}");
                assert_eq!(fields.remove(&name), refused, "{name}");
                assert!(fields.is_empty());
            }
        }
    }

    #[test]
    fn names_and_values_are_those_of_fields() {
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
    fn a_field_that_is_withheld_is_neither_set_nor_added() {
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

    #[test]
    fn what_a_server_may_read_as_the_name_is_dropped_too() {
        let mut fields = FieldRewrite::default();
        fields.set("X-User", "a", &PathMatch::Exact("/".to_owned())).unwrap();
        let drops = |name: &str| fields.drops(FieldName::new(name.as_bytes()).unwrap());
        assert!(drops("x-user") && drops("X_USER") && !drops("X-Users"));
    }
}
