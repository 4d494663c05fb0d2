//! Collects the errors of a config file, and provides checks for all sections.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thruway_certificates::acme::Wanted;
use thruway_net::tls::{CertificateError, Roots};

use super::failure::Source;
use super::values::{Period, Spanned};
use super::{Failure, Span};

/// Converts the sections of a config file to settings. After an invalid value, continues with a placeholder,
/// so that the checks find all errors.
pub(super) struct Resolver<'s> {
    pub(super) source: &'s Source,
    pub(super) failures: Vec<Failure>,
    /// The ACME settings, with the certificates to order.
    pub(super) acme: Option<Wanted>,
    /// `true` if replicas share certificates and ticket keys.
    pub(super) shares_secrets: bool,
    /// The hosts of all routes.
    pub(super) route_hosts: Vec<String>,
}

impl<'s> Resolver<'s> {
    /// Returns a resolver for the config in `source`, whose routes have the hosts `route_hosts`.
    pub(super) const fn new(source: &'s Source, route_hosts: Vec<String>) -> Self {
        Self { source, failures: Vec::new(), acme: None, shares_secrets: false, route_hosts }
    }
}

impl Resolver<'_> {
    pub(super) fn or<T>(&mut self, raw: Option<Spanned<T>>, default: T, range: RangeInclusive<T>) -> T
    where
        T: PartialOrd + fmt::Display,
    {
        let Some(value) = raw else { return default };
        if !range.contains(value.get_ref()) {
            self.refuse(&value, format!("the value must be from {} to {}", range.start(), range.end()));
        }
        value.into_inner()
    }

    pub(super) fn count(&mut self, raw: Option<Spanned<u64>>, range: RangeInclusive<u64>) -> Option<usize> {
        raw.and_then(|value| usize::try_from(self.or(Some(value), 0, range)).ok())
    }

    /// Refuses empty names: logs, metrics and the admin listener need a name.
    pub(super) fn check_name(&mut self, name: &str, span: &Span, what: &str) {
        if name.trim().is_empty() {
            self.refuse_at(span, format!("{what} needs a name"));
        }
    }

    /// Refuses an empty list. A missing list is valid, because the key has a default.
    pub(super) fn refuse_empty<T>(&mut self, list: &Spanned<Vec<T>>, message: &str, hint: &str) {
        if list.get_ref().is_empty() {
            self.refuse_with(list, message, hint);
        }
    }

    pub(super) fn refuse<T>(&mut self, at: &Spanned<T>, message: impl fmt::Display) {
        self.refuse_at(&at.span(), message);
    }

    pub(super) fn refuse_with<T>(&mut self, at: &Spanned<T>, message: impl fmt::Display, hint: &str) {
        self.failures.push(self.source.failure(at.span(), message).with_hint(hint));
    }

    pub(super) fn refuse_at(&mut self, span: &Span, message: impl fmt::Display) {
        self.failures.push(self.source.failure(span.clone(), message));
    }

    /// Resolves `path` relative to the directory of the config file, not to the current directory.
    pub(super) fn relative_to_config(&self, path: &Path) -> PathBuf {
        self.source.path.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }
}

/// Upper bound of size limits for headers: 1 MiB. The documentation of `Limits::header_section_bytes`
/// explains the cost of larger limits.
pub(super) const HEAD_BYTES_MAX: u32 = 1 << 20;
pub(super) const PERIOD_MAX: Period = Period(Duration::from_hours(24));
pub(super) const ANY_PERIOD: RangeInclusive<Period> = Period(Duration::ZERO)..=PERIOD_MAX;
pub(super) const SOME_PERIOD: RangeInclusive<Period> = Period(Duration::from_millis(1))..=PERIOD_MAX;

/// Returns `true` if a path may contain `byte` (RFC 3986 §3.3). Braces are not allowed, because they
/// enclose parameters.
pub(super) const fn is_path_byte(byte: char) -> bool {
    matches!(byte, 'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~' | '%' | '/' | ':' | '@')
        || matches!(byte, '!' | '$' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | ';' | '=')
}

pub(super) fn refuse_certificate(resolver: &mut Resolver<'_>, span: &Span, error: &CertificateError) {
    resolver.failures.push(resolver.source.failure(span.clone(), error).with_hint(error.hint()));
}

pub(super) fn resolve_roots(resolver: &mut Resolver<'_>, raw: Option<Spanned<Vec<PathBuf>>>) -> Roots {
    let Some(raw) = raw else { return Roots::System };
    resolver.refuse_empty(
        &raw,
        "`roots` needs at least one file",
        "remove `roots` to trust the roots of the system",
    );
    Roots::Files(resolve_all_relative_to_config(resolver, &raw))
}

pub(super) fn resolve_all_relative_to_config(
    resolver: &Resolver<'_>,
    paths: &Spanned<Vec<PathBuf>>,
) -> Vec<PathBuf> {
    paths.get_ref().iter().map(|path| resolver.relative_to_config(path)).collect()
}

/// Refuses the key `raw` in a route with neither `split` nor `upstream`, because the key applies only to
/// forwarded requests.
pub(super) fn refuse_without_upstream<T>(resolver: &mut Resolver<'_>, raw: Option<&Spanned<T>>) {
    if let Some(raw) = raw {
        resolver.refuse(raw, "this key requires `split` or `upstream`");
    }
}

pub(super) fn resolve_some_period(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Period>>,
) -> Option<Duration> {
    raw.map(|period| resolver.or(Some(period), Period(Duration::ZERO), SOME_PERIOD).0)
}

/// Returns a hint with a name that is similar to `name`, or with all names in `known`. If there are no names,
/// returns `otherwise`.
pub(super) fn known_hint<'n>(name: &str, known: impl Iterator<Item = &'n String>, otherwise: &str) -> String {
    let known: Vec<_> = known.collect();
    let similar = known.iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let similar = similar.filter(|(likeness, _)| *likeness > 0.8);
    match similar.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if known.is_empty() => otherwise.to_owned(),
        None => {
            let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("possible here: {}", known.join(", "))
        }
    }
}
