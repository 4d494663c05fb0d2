//! The names of a certificate.

use std::fmt;
use std::net::IpAddr;

use thruway_net::tls::TlsServerName;

/// Host names of a certificate to order: one or more names in lower case. The first name is also the name
/// of the certificate file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OrderedNames(Vec<String>);

/// Reason why a list of names is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidNames {
    /// The list is empty.
    Empty,
    /// An entry is an IP address. Contains the entry.
    IpAddress(String),
    /// An entry is not a host name. Contains the entry.
    NoHost(String),
    /// The list has more than 100 names.
    TooMany,
    /// A name occurs twice. Contains the name.
    Twice(String),
    /// An entry is a wildcard. Wildcards need the DNS challenge, but this crate does not support the DNS
    /// challenge. Contains the entry.
    Wildcard(String),
}

impl OrderedNames {
    /// Checks `names` and converts them to lower case.
    ///
    /// # Errors
    /// A name is invalid or occurs twice, or the list is empty or has more than 100 names.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, InvalidNames> {
        let mut ordered = Vec::new();
        for name in names {
            let name = host(name)?;
            if ordered.contains(&name) {
                return Err(InvalidNames::Twice(name));
            }
            ordered.push(name);
        }
        match ordered.len() {
            0 => Err(InvalidNames::Empty),
            1..=NAMES_MAX => Ok(Self(ordered)),
            _ => Err(InvalidNames::TooMany),
        }
    }

    /// Returns the first name.
    pub fn first(&self) -> &str {
        &self.0[0]
    }

    /// Returns all names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns `true` if a certificate for `others` covers all names in `self`.
    pub(super) fn are_among(&self, others: &[String]) -> bool {
        self.0.iter().all(|name| others.iter().any(|other| other.eq_ignore_ascii_case(name)))
    }
}

fn host(name: &str) -> Result<String, InvalidNames> {
    match () {
        () if name.contains('*') => Err(InvalidNames::Wildcard(name.to_owned())),
        () if name.parse::<IpAddr>().is_ok() || name.starts_with('[') => {
            Err(InvalidNames::IpAddress(name.to_owned()))
        }
        () if TlsServerName::new(name).is_err() || name.ends_with('.') => {
            Err(InvalidNames::NoHost(name.to_owned()))
        }
        () => Ok(name.to_ascii_lowercase()),
    }
}

impl InvalidNames {
    /// Returns advice for the operator on how to correct the list.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "write host names: `acme = [\"www.example.com\"]`",
            Self::IpAddress(_) | Self::NoHost(_) => "write a host name, such as `www.example.com`",
            Self::TooMany => "order several certificates, each with at most 100 names",
            Self::Twice(_) => "leave it out",
            Self::Wildcard(_) => {
                "list each name: wildcards require the DNS challenge, which is not supported"
            }
        }
    }
}

impl fmt::Display for InvalidNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a certificate needs at least one name"),
            Self::IpAddress(name) => write!(f, "`{}` is an IP address", name.escape_debug()),
            Self::NoHost(name) => write!(f, "`{}` is not a host name", name.escape_debug()),
            Self::TooMany => f.write_str("a certificate must not have more than 100 names"),
            Self::Twice(name) => write!(f, "`{name}` is listed twice"),
            Self::Wildcard(name) => write!(f, "cannot order a certificate for `{}`", name.escape_debug()),
        }
    }
}

impl std::error::Error for InvalidNames {}

/// Maximum number of names in a certificate. Let's Encrypt has the same limit.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_names_must_be_unique_host_names() {
        let names = OrderedNames::new(["WWW.Example", "example"]).unwrap();
        assert_eq!((names.first(), names.iter().len()), ("www.example", 2));
        assert!(names.are_among(&["example".to_owned(), "more".to_owned(), "Www.example".to_owned()]));
        assert!(!names.are_among(&["www.example".to_owned()]));
        let refused = |names: &[&str]| OrderedNames::new(names.iter().copied()).unwrap_err();
        assert_eq!(refused(&[]), InvalidNames::Empty);
        assert_eq!(refused(&["a.example", "A.example"]), InvalidNames::Twice("a.example".to_owned()));
        assert_eq!(refused(&["*.example"]), InvalidNames::Wildcard("*.example".to_owned()));
        for name in ["192.0.2.1", "::1", "[::1]"] {
            assert_eq!(refused(&[name]), InvalidNames::IpAddress(name.to_owned()));
        }
        for name in ["", "..", "a..b", "a/b", "../a", "a b", "a.example.", "ä.example", "a\0"] {
            assert_eq!(refused(&[name]), InvalidNames::NoHost(name.to_owned()));
        }
        let many: Vec<_> = (0..101).map(|n| format!("{n}.example")).collect();
        assert_eq!(OrderedNames::new(many.iter().map(String::as_str)).unwrap_err(), InvalidNames::TooMany);
    }
}
