//! Routes: which requests, and what happens to them.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use thruway_gateway::{
    Conditions, Expected, HostMatch, InvalidPattern, InvalidRedirect, PathMatch, PathPattern, Redirect,
    RouteMatch, normalized_path,
};
use thruway_server::layers::Compression;
use thruway_server::{FieldName, Method, StatusCode};

use super::policies::ResolvedPolicies;
use super::{Resolver, Span};
use crate::config::forward::{ForwardAction, ForwardTo};
use crate::config::raw::{RawExpected, RawFiles, RawRedirect, RawRoute};
use crate::config::spanned::Spanned;
use crate::config::{Action, Failure, FilesConfig, Route, Upstreams};

/// What routes refer to.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    pub(super) upstreams: &'k Upstreams,
    pub(super) policies: &'k ResolvedPolicies,
    /// How responses are compressed on routes that do not say it themselves.
    pub(super) compression: Option<&'k Compression>,
}

impl Resolver<'_> {
    /// Resolves the routes, of which there must be one if `needs_routes`.
    pub(super) fn routes(
        &mut self,
        raw: Vec<Spanned<RawRoute>>,
        known: Known<'_>,
        needs_routes: bool,
    ) -> Vec<Route> {
        if raw.is_empty() && needs_routes {
            self.failures.push(
                Failure::new(format!("`{}` has no route", self.source.path.display()))
                    .with_hint("add one: `[[routes]]` and below it `path = \"/\"` and `demo = true`"),
            );
        }
        raw.into_iter().filter_map(|route| self.route(route, known)).collect()
    }

    fn route(
        &mut self,
        raw: Spanned<RawRoute>,
        Known { upstreams, policies, compression }: Known<'_>,
    ) -> Option<Route> {
        let span = raw.span();
        let mut raw = raw.into_inner();
        let host = raw.host.take().map_or(HostMatch::Any, |host| self.host(&host));
        let path = self.path_match(&mut raw, &span);
        self.check_tunnel_route(&raw, path.as_ref());
        let conditions = self.conditions(&mut raw);
        self.check_told_fields(&raw, policies);
        let policies = self.route_policies(std::mem::take(&mut raw.policies), policies);
        let is_compression_own = raw.compression.is_some();
        let compression = match raw.compression.take() {
            None => compression.cloned(),
            Some(own) => self.compression(own),
        };
        let action = self.action(raw, &span, path.as_ref(), upstreams);
        Some(Route {
            matching: RouteMatch { host, path: path?, conditions },
            policies,
            compression,
            is_compression_own,
            action: action?,
            span,
        })
    }

    /// What policies tell an upstream of its client is not for the same route to change: it would be told something else in silence.
    fn check_told_fields(&mut self, raw: &RawRoute, policies: &ResolvedPolicies) {
        let Some(rewrite) = &raw.rewrite else { return };
        let fields = &rewrite.get_ref().request;
        for name in fields.remove.iter().chain(fields.set.keys()).chain(fields.add.keys()) {
            let owns = |policy: &&Spanned<String>| {
                let config = policies.get(policy.get_ref()).and_then(Option::as_ref);
                config.is_some_and(|config| config.owns_field(name.get_ref()))
            };
            if let Some(owner) = raw.policies.iter().find(owns) {
                let message = format!(
                    "the policy `{}` of this route says in this field who asks",
                    owner.get_ref().escape_debug()
                );
                self.refuse_with(name, message, "take another name, or let the policy tell nothing");
            }
        }
    }

    fn host(&mut self, raw: &Spanned<String>) -> HostMatch {
        HostMatch::parse(raw.get_ref()).unwrap_or_else(|error| {
            self.refuse_with(raw, error, "write `example.com`, or `*.example.com` for all hosts below it");
            HostMatch::Any
        })
    }

    fn path_match(&mut self, raw: &mut RawRoute, span: &Span) -> Option<PathMatch> {
        match (raw.path.take(), raw.path_exact.take(), raw.path_pattern.take()) {
            (Some(path), None, None) => Some(PathMatch::Prefix(self.path(path))),
            (None, Some(path), None) => Some(PathMatch::Exact(self.path(path))),
            (None, None, Some(pattern)) => self.pattern(&pattern).map(PathMatch::Pattern),
            _ => {
                self.refuse_at(span, "a route has exactly one of `path`, `path_exact` and `path_pattern`");
                None
            }
        }
    }

    /// Paths of requests are normalized before they are compared with it.
    fn path(&mut self, raw: Spanned<String>) -> String {
        let path = raw.get_ref();
        if !path.starts_with('/') {
            self.refuse(&raw, "a path begins with `/`");
        } else if path.contains(['{', '}']) {
            self.refuse_with(&raw, "a path has no parameters", "write `path_pattern = …`");
        } else if let Some(octet) = path.chars().find(|octet| !is_path_octet(*octet)) {
            self.refuse_octet(&raw, octet);
        } else {
            self.check_spelling(&raw, path);
        }
        raw.into_inner()
    }

    /// Whether paths of requests can be spelled as `path`, which `raw` is with its places filled.
    fn check_spelling(&mut self, raw: &Spanned<String>, path: &str) {
        match normalized_path(path) {
            Err(error) => self.refuse(raw, error),
            Ok(normal) if normal == path => {}
            Ok(normal) => {
                let message = "no request has this path: paths are normalized before they are compared";
                // A hint that spells the path out would show the value of a variable.
                let hint = if raw.get_ref() == path && !self.source.has_variable(&raw.span()) {
                    format!("write `{normal}`")
                } else {
                    "write no dot segments, no slash behind another, and nothing encoded that need not be"
                        .to_owned()
                };
                self.refuse_with(raw, message, &hint);
            }
        }
    }

    fn pattern(&mut self, raw: &Spanned<String>) -> Option<PathPattern> {
        let text = raw.get_ref();
        if let Some(octet) = text.chars().find(|&octet| !is_path_octet(octet) && !matches!(octet, '{' | '}'))
        {
            self.refuse_octet(raw, octet);
            return None;
        }
        match PathPattern::parse(text) {
            Ok(pattern) => {
                self.check_spelling(raw, &text.replace(['{', '}', '*'], "_"));
                return Some(pattern);
            }
            Err(error @ InvalidPattern::NoParameter) => {
                self.refuse_with(raw, error, "write `path_exact`, or `path` for all below it as well");
            }
            Err(error) => self.refuse(raw, error),
        }
        None
    }

    fn refuse_octet(&mut self, raw: &Spanned<String>, octet: char) {
        let message = format!("a path does not hold `{}`", octet.escape_debug());
        self.refuse_with(raw, message, "it is written as clients send it: percent-encoded, no query");
    }

    fn conditions(&mut self, raw: &mut RawRoute) -> Conditions {
        let methods = match raw.methods.take() {
            _ if raw.connect.is_some() => vec![Method::Connect.as_str().to_owned()],
            Some(methods) => self.methods(methods),
            None => Vec::new(),
        };
        let (headers, query) = (std::mem::take(&mut raw.headers), std::mem::take(&mut raw.query));
        for name in headers.keys() {
            if let Err(error) = FieldName::new(name.get_ref().as_bytes()) {
                self.refuse(name, error);
            }
        }
        Conditions { methods, headers: expected(headers), query: expected(query) }
    }

    fn methods(&mut self, raw: Spanned<Vec<Spanned<String>>>) -> Vec<String> {
        if raw.get_ref().is_empty() {
            self.refuse_with(&raw, "a route has at least one method", "leave it out for all methods");
        }
        for method in raw.get_ref() {
            self.method(method);
        }
        raw.into_inner().into_iter().map(Spanned::into_inner).collect()
    }

    fn method(&mut self, raw: &Spanned<String>) {
        let name = raw.get_ref();
        let capitals = name.to_ascii_uppercase();
        match (Method::from_token(name.as_bytes()), Method::from_token(capitals.as_bytes())) {
            (Ok(Method::Connect), _) => {
                self.refuse_with(raw, "tunnels are not made here", "a route with `connect` makes them");
            }
            (Ok(Method::Other(_)), Ok(meant)) if meant.registered().is_some() => {
                self.refuse_with(
                    raw,
                    format!("unknown method `{name}`"),
                    &format!("did you mean `{capitals}`?"),
                );
            }
            (Ok(_), _) => {}
            (Err(error), _) => self.refuse(raw, error),
        }
    }

    /// The action, if there is exactly one.
    fn action(
        &mut self,
        mut raw: RawRoute,
        span: &Span,
        path: Option<&PathMatch>,
        upstreams: &Upstreams,
    ) -> Option<Action> {
        let timeouts = self.forward_timeouts(&mut raw);
        let RawRoute {
            answer, connect, demo, files, mcp, redirect, split, upstream, rewrite, mirror, ..
        } = raw;
        if split.is_none() && upstream.is_none() {
            self.refuse_without_upstream(rewrite.as_ref());
            self.refuse_without_upstream(mirror.as_ref());
        }
        let (demo, mcp) = (demo.unwrap_or_default(), mcp.unwrap_or_default());
        let connect = connect.map(|connect| self.connect(connect));
        let to = match (answer, demo, files, mcp, redirect, split, upstream) {
            (None, false, None, false, None, None, None) if let Some(connect) = connect => {
                return Some(Action::Connect(connect));
            }
            _ if connect.is_some() => {
                self.refuse_at(span, ACTIONS);
                return None;
            }
            (Some(answer), false, None, false, None, None, None) => {
                return Some(Action::Answer(self.answer(answer)));
            }
            (None, true, None, false, None, None, None) => return Some(Action::Demo),
            (None, false, Some(files), false, None, None, None) => {
                return Some(Action::Files(self.files(files)));
            }
            (None, false, None, true, None, None, None) => return Some(Action::Mcp),
            (None, false, None, false, Some(redirect), None, None) => {
                return self.redirect(redirect).map(Action::Redirect);
            }
            (None, false, None, false, None, Some(split), None) => self.split(split, upstreams),
            (None, false, None, false, None, None, Some(name)) => {
                self.known_upstream(&name, upstreams).map(ForwardTo::Upstream)
            }
            _ => {
                self.refuse_at(span, ACTIONS);
                return None;
            }
        };
        let rewrite = rewrite.map(Spanned::into_inner).zip(path);
        let rewrite = rewrite.map(|(rewrite, path)| self.rewrite(rewrite, path)).unwrap_or_default();
        let mirror = mirror.and_then(|mirror| self.mirror(mirror.into_inner(), upstreams));
        Some(Action::Forward(Box::new(ForwardAction { to: to?, rewrite, mirror, timeouts })))
    }

    /// What is said of a way that requests do not go.
    pub(super) fn refuse_without_upstream<T>(&mut self, raw: Option<&Spanned<T>>) {
        if let Some(raw) = raw {
            self.refuse(
                raw,
                "only what is forwarded, with `split` or `upstream`, is rewritten, mirrored or waited for",
            );
        }
    }

    fn redirect(&mut self, RawRedirect { to, status }: RawRedirect) -> Option<Redirect> {
        let code = status.as_ref().map_or(308, |status| *status.get_ref());
        let status_code = StatusCode::new(code).unwrap_or(StatusCode::OK);
        match (Redirect::new(to.get_ref(), status_code), status) {
            (Ok(redirect), _) => return Some(redirect),
            (Err(error @ InvalidRedirect::Status), Some(status)) => self.refuse(&status, error),
            (Err(error), _) => self.refuse(&to, error),
        }
        None
    }

    fn files(&mut self, raw: RawFiles) -> FilesConfig {
        if let Some(value) = &raw.cache_control {
            self.field_line("Cache-Control", value);
        }
        if let Some(index) = &raw.index {
            let mut components = Path::new(index.get_ref()).components();
            if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
                self.refuse(index, "an index is the name of a file, without a path");
            }
        }
        FilesConfig {
            root: self.beside_config(&raw.root),
            index: raw.index.map(Spanned::into_inner),
            precompressed: raw.precompressed.unwrap_or(true),
            hidden_files: raw.hidden_files,
            cache_control: raw.cache_control.map(Spanned::into_inner),
        }
    }
}

fn expected(raw: BTreeMap<Spanned<String>, Spanned<RawExpected>>) -> Vec<Expected> {
    let expected = |(name, value): (Spanned<String>, Spanned<RawExpected>)| {
        let value = match value.into_inner() {
            RawExpected::Any => None,
            RawExpected::Value(value) => Some(value),
        };
        Expected { name: name.into_inner(), value }
    };
    raw.into_iter().map(expected).collect()
}

/// Whether `octet` can be part of a path (RFC 3986 §3.3), and is no brace, which would begin a parameter.
pub(super) const fn is_path_octet(octet: char) -> bool {
    matches!(octet, 'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' | '~' | '%' | '/' | ':' | '@')
        || matches!(octet, '!' | '$' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | ';' | '=')
}

const ACTIONS: &str = "a route has exactly one of `answer`, `connect`, `demo`, `files`, `mcp`, `redirect`, `split` and `upstream`";
