//! Routes: select the handler for each request.
//!
//! The first matching route handles the request. Routes are tried in this order:
//!
//! 1. By host: routes for exactly this host come first. Then come routes for parent domains
//!    (`*.example.com`), longest name first. Routes for any host come last. A route with several hosts has a
//!    place in this order for each of them.
//! 2. By path: routes for exactly this path come first. Then come path patterns (`/users/{id}`). Path
//!    prefixes come last, longest prefix first.
//! 3. By the number of further conditions: routes with more conditions come first. The list of methods counts
//!    as one condition, and so do the list of listeners, a list of file extensions and a regular expression. Each
//!    header and each query parameter also counts as one condition.
//! 4. By position: in the order of the list that was passed to [`Routes::new`].
//!
//! If a request does not meet a condition of a route, the gateway tries the next route. The search allocates
//! no memory, and routes for other paths do not slow down the search.
//!
//! Paths are [normalized](normalized_path) before the comparison. Normalization allocates memory only if the
//! path changes. Requests with invalid paths get 400. A request also gets 400 if a server may interpret its
//! path as a path of another route. Otherwise, the request could bypass the policies of that route.
//! [`PathReadings`] can change this behavior. Handlers get paths as the client sent them.

mod by_listener;
mod matching;
mod normal;
mod readings;
mod conditions;
mod pattern;
mod regex;
mod table;
mod traced;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use thruway_message::{RequestHead, RequestTarget};
use thruway_server::{Answer, Handler, Request, Response, StatusCode};

pub use by_listener::{ListenerRoutes, RoutesOfListener};
pub use conditions::{
    Conditions, Expected, ExpectedValue, NegatedConditions, SpecialConditions, Unfulfilled,
};
pub use matching::{HostMatch, InvalidHost, PathMatch, RouteMatch};
pub use normal::{UnclearPath, normalized_path};
pub use pattern::{InvalidPattern, PathPattern};
pub use readings::{AmbiguousPath, PathReadings};
pub use regex::{InvalidRegex, RouteRegex};

pub use traced::{RecordedRoute, TracedRoute, UnloggedRoute};

use crate::{ListenerSettings, RefusalCount, ResponseRules};
use matching::{HOST_BYTES_MAX, comparable, prefix_of};
use normal::is_normal;
pub(crate) use normal::{NormalPath, has_dot_segment};
use pattern::PatternTree;
use table::Table;

/// Routes and their handlers. A request that matches no route gets 404. If only the method does not match,
/// the request gets 405 with the header `Allow`.
///
/// In the handler of a route with a path prefix, [`Request::mounted_path`] returns the path after the prefix.
pub struct Routes {
    entries: Vec<Entry>,
    sites: HostRoutes,
    /// The handler of the only route, if that route matches every request.
    only: Option<Arc<dyn Handler>>,
    readings: PathReadings,
    /// Counts requests that match no route.
    refusals: Arc<RefusalCount>,
}

struct Entry {
    conditions: Conditions,
    /// Length of the route's path prefix, in bytes. [`Request::mounted_path`] begins after this prefix.
    mount_prefix: usize,
    handler: Arc<dyn Handler>,
    /// Names of the policies in front of the handler.
    guards: Vec<String>,
}

/// The routes of all hosts.
#[derive(Default)]
struct HostRoutes {
    exact: Table<Paths>,
    below: Table<Paths>,
    any: Paths,
}

/// The routes of one host by path. Routes with the same path are in evaluation order.
#[derive(Default)]
struct Paths {
    exact: Table<Vec<usize>>,
    patterns: PatternTree,
    prefixes: Table<Vec<usize>>,
}

/// A route and one of its hosts. No request for this host can reach the route, because another route handles
/// all of its requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// Index of the unreachable route in the list that was passed to [`Routes::new`].
    pub route: usize,
    /// The host of the unreachable route.
    pub host: HostMatch,
    /// The listener of the requests. `None` if all routes are for all listeners, or for the listeners that no
    /// route names.
    pub listener: Option<String>,
    /// Index of the route that handles all requests of the unreachable route for this host.
    pub taken_by: usize,
}

/// A route that matches the host and the path of a request. `unfulfilled` is the first condition of the
/// route that the request does not meet, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<'r> {
    /// Index of the route in the list that was passed to [`Routes::new`].
    pub route: usize,
    /// The first condition that the request does not meet. `None` if the route matches the request.
    pub unfulfilled: Option<Unfulfilled<'r>>,
}

impl Routes {
    /// Creates the routes from a list of handlers. Each handler has a [`RouteMatch`], which determines its
    /// requests.
    ///
    /// # Errors
    /// Returns the list of all routes that no request can reach, by host.
    pub fn new(given: Vec<(RouteMatch, Arc<dyn Handler>)>) -> Result<Self, Vec<Unreachable>> {
        let mut order: Vec<usize> = (0..given.len()).collect();
        // The sort is stable: routes with the same number of conditions keep their order.
        order.sort_by_key(|place| Reverse(given[*place].0.condition_count()));
        let mut sites = HostRoutes::default();
        let mut unreachable = Vec::new();
        for route in order {
            let RouteMatch { path, conditions, .. } = &given[route].0;
            // Each host has its own table of paths. So a list of hosts costs a request no time.
            for host in given[route].0.hosts_or_any() {
                let earlier = sites.paths_of(host).entry(path);
                match earlier.iter().find(|&&place| given[place].0.conditions.include(conditions)) {
                    // The list contains this host twice.
                    Some(&same) if same == route => {}
                    // The route matches the requests of other listeners.
                    Some(&taken_by)
                        if given[route].0.listeners.is_empty() && !given[taken_by].0.listeners.is_empty() => {
                    }
                    Some(&taken_by) => {
                        unreachable.push(Unreachable { route, host: host.clone(), listener: None, taken_by });
                    }
                    None => earlier.push(route),
                }
            }
        }
        if !unreachable.is_empty() {
            unreachable.sort_by_key(|unreachable| unreachable.route);
            return Err(unreachable);
        }
        let only = match &given[..] {
            [(route, handler)] if route.is_for_everything() => Some(handler.clone()),
            _ => None,
        };
        let entries = given.into_iter().map(|(route, handler)| Entry::new(route, handler)).collect();
        let readings = PathReadings::default();
        Ok(Self { entries, sites, only, readings, refusals: Arc::default() })
    }

    /// Sets the counter of requests that match no route.
    #[must_use]
    pub fn counted_by(self, refusals: Arc<RefusalCount>) -> Self {
        Self { refusals, ..self }
    }

    /// Sets the treatment of ambiguous paths. For each route, `guards` contains the names of its policies.
    /// The order of the routes is the same as in [`Routes::new`].
    #[must_use]
    pub fn guarding(mut self, readings: PathReadings, guards: Vec<Vec<String>>) -> Self {
        self.readings = readings;
        self.entries.iter_mut().zip(guards).for_each(|(entry, guards)| entry.guards = guards);
        self
    }

    /// Returns the route that handles a request with this head, as an index in the list that was passed to
    /// [`Routes::new`]. Returns `None` if no route handles the request.
    pub fn find(&self, head: &RequestHead<'_>) -> Option<usize> {
        let path = path_of(head).ok()?;
        let place = self.find_at(head, &path)?;
        self.other_reading(head, &path, place).is_none().then_some(place)
    }

    /// Returns the reason if the gateway refuses a request because of its path. Returns `None` if the path is
    /// not a reason for a refusal.
    pub fn unclear(&self, head: &RequestHead<'_>) -> Option<UnclearPath> {
        let path = match path_of(head) {
            Ok(path) => path,
            Err(unclear) => return Some(unclear),
        };
        self.other_reading(head, &path, self.find_at(head, &path)?)
    }

    /// Returns the reason if the route with the index `place` must not handle a request with the ambiguous
    /// path `path`.
    #[inline]
    fn other_reading(
        &self,
        head: &RequestHead<'_>,
        path: &NormalPath<'_>,
        place: usize,
    ) -> Option<UnclearPath> {
        if path.is_ambiguous() { self.rejected_reading(head, path.bytes(), place) } else { None }
    }

    #[cold]
    fn rejected_reading(&self, head: &RequestHead<'_>, path: &[u8], place: usize) -> Option<UnclearPath> {
        if let Some(rejected) = self.readings.rejected(path) {
            return Some(rejected);
        }
        let guards = &self.entries[place].guards;
        let is_guarded = |reading: &Vec<u8>| match NormalPath::of(reading) {
            Err(_) => true,
            Ok(path) => {
                let special = self.entries[place].conditions.special.as_ref();
                if special.is_some_and(|special| special.unfulfilled(head, path.bytes()).is_some()) {
                    // The server may read a path that the conditions of this route exclude.
                    return true;
                }
                let other = self.find_at(head, &path).map(|other| &self.entries[other].guards);
                other.is_some_and(|others| others.iter().any(|other| !guards.contains(other)))
            }
        };
        self.readings.others(path).iter().any(is_guarded).then_some(UnclearPath::OtherRoute)
    }

    #[inline]
    fn find_at(&self, head: &RequestHead<'_>, path: &NormalPath<'_>) -> Option<usize> {
        let visit = &mut |place: usize| match self.entries[place].conditions.unfulfilled(head, path.bytes()) {
            None => ControlFlow::Break(place),
            Some(_) => ControlFlow::Continue(()),
        };
        self.sites.try_each(head, path.bytes(), visit).break_value()
    }

    /// Returns all routes that match the host and the path of this head, in evaluation order.
    pub fn candidates(&self, head: &RequestHead<'_>) -> Vec<Candidate<'_>> {
        let mut candidates = Vec::new();
        let Ok(path) = path_of(head) else { return candidates };
        let _ = self.sites.try_each(head, path.bytes(), &mut |route| {
            // Several hosts of a route may match the same request.
            if candidates.iter().all(|other: &Candidate<'_>| other.route != route) {
                let unfulfilled = self.entries[route].conditions.unfulfilled(head, path.bytes());
                candidates.push(Candidate { route, unfulfilled });
            }
            ControlFlow::<()>::Continue(())
        });
        candidates
    }

    /// Returns the response to a request that matches no route.
    #[cold]
    pub fn refuse(&self, head: &RequestHead<'_>) -> Response {
        if matches!(head.target, RequestTarget::Authority(_)) {
            let response = Response::new(StatusCode::METHOD_NOT_ALLOWED);
            return response.with_field("Allow", ALLOW_ANYWHERE);
        }
        if let Some(unclear) = self.unclear(head) {
            return Response::text(format_args!("{unclear}\n")).with_status(StatusCode::BAD_REQUEST);
        }
        let candidates = self.candidates(head).into_iter();
        let methods = candidates.filter_map(|candidate| match candidate.unfulfilled? {
            Unfulfilled::Methods(names) => Some(names.iter().map(String::as_str)),
            _ => None,
        });
        let mut methods: BTreeSet<&str> = methods.flatten().collect();
        if methods.is_empty() {
            return Response::text("not found\n").with_status(StatusCode::NOT_FOUND);
        }
        if methods.contains("GET") {
            methods.insert("HEAD");
        }
        let methods: Vec<&str> = methods.into_iter().collect();
        Response::new(StatusCode::METHOD_NOT_ALLOWED).with_field("Allow", methods.join(", "))
    }
}

impl Routes {
    #[cold]
    fn refused(&self, request: &Request<'_>) -> Answer {
        self.refusals.note();
        let mut response = ListenerSettings::apply_error_pages(request, self.refuse(request.head()));
        ResponseRules::apply_of_listener(request, &mut response);
        Answer::Now(response)
    }
}

impl Entry {
    fn new(route: RouteMatch, handler: Arc<dyn Handler>) -> Self {
        let mount_prefix = match &route.path {
            PathMatch::Prefix(path) => prefix_of(path).len(),
            PathMatch::Exact(_) | PathMatch::Pattern(_) => 0,
        };
        Self { conditions: route.conditions, mount_prefix, handler, guards: Vec::new() }
    }
}

impl Handler for Routes {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match request.target() {
            RequestTarget::Origin(_) | RequestTarget::Absolute(_) => {}
            // `OPTIONS *` concerns the whole server, so no route matches.
            RequestTarget::Asterisk => {
                let response = Response::new(StatusCode::NO_CONTENT);
                let mut response = response.with_field("Allow", ALLOW_ANYWHERE);
                ResponseRules::apply_of_listener(request, &mut response);
                return Answer::Now(response);
            }
            // Only routes that list the method CONNECT get CONNECT requests. Other handlers would interpret
            // the request target wrongly.
            RequestTarget::Authority(_) => {
                return match self.find(request.head()) {
                    Some(place) => self.entries[place].handler.handle(request),
                    None => self.refused(request),
                };
            }
        }
        if let Some(handler) = &self.only
            && has_normal_path(request.head())
        {
            return handler.handle(request);
        }
        // A borrow, because a move would copy the struct (decision 0008).
        let Ok(path) = &path_of(request.head()) else { return self.refused(request) };
        if let Some(handler) = &self.only {
            return match self.other_reading(request.head(), path, 0) {
                None => handler.handle(request),
                Some(_) => self.refused(request),
            };
        }
        match self.find_at(request.head(), path) {
            Some(place) if self.other_reading(request.head(), path, place).is_some() => self.refused(request),
            Some(place) => {
                let entry = &self.entries[place];
                request.mount_below(path.sent_length(entry.mount_prefix));
                entry.handler.handle(request)
            }
            None => self.refused(request),
        }
    }
}

/// Returns the normalized path of a request.
#[inline]
fn path_of<'a>(head: &RequestHead<'a>) -> Result<NormalPath<'a>, UnclearPath> {
    match &head.target {
        RequestTarget::Origin(origin) if origin.has_plain_path() => {
            Ok(NormalPath::plain(origin.path_bytes()))
        }
        _ => NormalPath::of(sent_path(head)),
    }
}

/// Returns `true` if the path of a request is normalized and all servers read it in the same way.
#[inline]
fn has_normal_path(head: &RequestHead<'_>) -> bool {
    match &head.target {
        RequestTarget::Origin(origin) if origin.has_plain_path() => true,
        _ => is_normal(sent_path(head)),
    }
}

/// Returns the path of a request as the client sent it.
#[inline]
fn sent_path<'a>(head: &RequestHead<'a>) -> &'a [u8] {
    match &head.target {
        RequestTarget::Origin(origin) => origin.path_bytes(),
        target => target.path().as_bytes(),
    }
}

impl HostRoutes {
    /// Returns the routes of `host`. If the host has no routes yet, creates an empty entry.
    fn paths_of(&mut self, host: &HostMatch) -> &mut Paths {
        match host {
            HostMatch::Any => &mut self.any,
            HostMatch::Below(host) => self.below.entry(host.as_bytes()),
            HostMatch::Exact(host) => self.exact.entry(host.as_bytes()),
        }
    }

    /// Calls `visit` with each route that matches the host and the path of `head`, in evaluation order. The
    /// calls stop when `visit` returns `Break`.
    #[inline]
    fn try_each<B>(
        &self,
        head: &RequestHead<'_>,
        path: &[u8],
        visit: &mut impl FnMut(usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if !(self.exact.is_empty() && self.below.is_empty()) {
            self.try_each_of_host(head, path, visit)?;
        }
        self.any.try_each(path, visit)
    }

    fn try_each_of_host<B>(
        &self,
        head: &RequestHead<'_>,
        path: &[u8],
        visit: &mut impl FnMut(usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut buffer = [0; HOST_BYTES_MAX];
        let Some(authority) = head.authority() else { return ControlFlow::Continue(()) };
        let Some(host) = comparable(authority.host(), &mut buffer) else { return ControlFlow::Continue(()) };
        if let Some(paths) = self.exact.get(host) {
            paths.try_each(path, visit)?;
        }
        self.below.ends_of(host).try_for_each(|paths| paths.try_each(path, visit))
    }
}

impl Paths {
    /// Returns the routes of `path`. If the path has no routes yet, creates an empty entry.
    fn entry(&mut self, path: &PathMatch) -> &mut Vec<usize> {
        match path {
            PathMatch::Exact(path) => self.exact.entry(path.as_bytes()),
            PathMatch::Pattern(pattern) => self.patterns.entry(pattern),
            PathMatch::Prefix(path) => self.prefixes.entry(prefix_of(path).as_bytes()),
        }
    }

    #[inline]
    fn try_each<B>(&self, path: &[u8], visit: &mut impl FnMut(usize) -> ControlFlow<B>) -> ControlFlow<B> {
        if let Some(places) = self.exact.get(path) {
            places.iter().try_for_each(|place| visit(*place))?;
        }
        self.patterns.try_each(path, visit)?;
        self.prefixes.prefixes_of(path).flatten().try_for_each(|place| visit(*place))
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("routes", &self.entries.len()).finish_non_exhaustive()
    }
}

/// Methods in the header `Allow` of the response to `OPTIONS *`. A request `OPTIONS *` asks for the
/// capabilities of the whole server (RFC 9110 §9.3.7).
const ALLOW_ANYWHERE: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
