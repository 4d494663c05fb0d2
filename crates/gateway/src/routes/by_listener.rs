//! Routes that match only the requests of some listeners.

use std::collections::BTreeSet;
use std::sync::Arc;

use thruway_server::{Answer, Handler, IntoHandler, Request};

use super::matching::RouteMatch;
use super::readings::PathReadings;
use super::{Routes, Unreachable};
use crate::{ListenerSettings, RefusalCount};

/// The routes of all listeners. A request matches only the routes for the listener that has accepted its
/// connection, and the routes for all listeners.
///
/// Each listener that a route names has its own table of routes. So a request is compared only with the routes
/// of its listener. The table depends on the name in the [`ListenerSettings`], not on the position of the
/// listener. So after a reload, requests on open connections get the routes of the same listener.
pub struct ListenerRoutes {
    /// The tables of the listeners that a route names.
    named: Vec<(String, RouteTable)>,
    /// The table of all other listeners.
    others: RouteTable,
}

/// The routes of a listener.
struct RouteTable {
    routes: Routes,
    /// The index of each route in the list of all routes.
    places: Vec<usize>,
}

/// The routes of a listener, or of all listeners that no route names.
#[derive(Clone, Copy)]
pub struct RoutesOfListener<'r> {
    /// Name of the listener. `None` stands for all listeners that no route names.
    pub name: Option<&'r str>,
    /// The routes. They have their own indices.
    pub routes: &'r Routes,
    /// The index of each of the `routes` in the list that was passed to [`ListenerRoutes::new`].
    pub places: &'r [usize],
}

impl ListenerRoutes {
    /// Creates the routes from a list of handlers, each with the requests that it gets.
    ///
    /// # Errors
    /// Returns the list of all routes that no request can reach, by host and listener.
    pub fn new(given: &[(RouteMatch, Arc<dyn Handler>)]) -> Result<Self, Vec<Unreachable>> {
        let bound: BTreeSet<&String> = given.iter().flat_map(|(route, _)| &route.listeners).collect();
        let (mut others, mut named, mut unreachable) = (None, Vec::new(), Vec::<Unreachable>::new());
        for name in [None].into_iter().chain(bound.into_iter().map(Some)) {
            match (RouteTable::new(given, name.map(String::as_str)), name) {
                (Ok(table), Some(name)) => named.push((name.clone(), table)),
                (Ok(table), None) => others = Some(table),
                (Err(found), _) => {
                    let known = unreachable.len();
                    // A conflict of routes for all listeners occurs in each table.
                    let is_new =
                        |one: &Unreachable| !unreachable[..known].iter().any(|other| one.is_same(other));
                    let new: Vec<_> = found.into_iter().filter(is_new).collect();
                    unreachable.extend(new);
                }
            }
        }
        match others {
            Some(others) if unreachable.is_empty() => Ok(Self { named, others }),
            _ => {
                unreachable.sort_by_key(|unreachable| unreachable.route);
                Err(unreachable)
            }
        }
    }

    /// Sets the counter of requests that match no route.
    #[must_use]
    pub fn counted_by(self, refusals: &Arc<RefusalCount>) -> Self {
        self.map(|table| RouteTable { routes: table.routes.counted_by(refusals.clone()), ..table })
    }

    /// Sets the treatment of ambiguous paths. For each route, `guards` contains the names of its policies, as
    /// in [`Routes::guarding`].
    #[must_use]
    pub fn guarding(self, readings: PathReadings, guards: &[Vec<String>]) -> Self {
        self.map(|RouteTable { routes, places }| {
            let guards = places.iter().map(|place| guards[*place].clone()).collect();
            RouteTable { routes: routes.guarding(readings, guards), places }
        })
    }

    /// Returns the tables: one for each listener that a route names, and then one for all other listeners.
    pub fn tables(&self) -> impl Iterator<Item = RoutesOfListener<'_>> {
        let named = self.named.iter().map(|(name, table)| (Some(&**name), table));
        named.chain([(None, &self.others)]).map(|(name, RouteTable { routes, places })| RoutesOfListener {
            name,
            routes,
            places,
        })
    }

    fn map(self, mut change: impl FnMut(RouteTable) -> RouteTable) -> Self {
        let others = change(self.others);
        Self { named: self.named.into_iter().map(|(name, table)| (name, change(table))).collect(), others }
    }
}

impl Unreachable {
    /// Returns `true` if `other` is about the same routes and the same host.
    fn is_same(&self, other: &Self) -> bool {
        (self.route, self.taken_by, &self.host) == (other.route, other.taken_by, &other.host)
    }
}

impl RouteTable {
    /// Creates the table of the listener with this name. `None` stands for all listeners that no route names.
    fn new(given: &[(RouteMatch, Arc<dyn Handler>)], name: Option<&str>) -> Result<Self, Vec<Unreachable>> {
        let is_for_listener = |(_, (route, _)): &(usize, &(RouteMatch, _))| route.is_for_listener(name);
        let (places, routes): (Vec<usize>, Vec<_>) = given
            .iter()
            .enumerate()
            .filter(is_for_listener)
            .map(|(place, route)| (place, route.clone()))
            .unzip();
        match Routes::new(routes) {
            Ok(routes) => Ok(Self { routes, places }),
            Err(unreachable) => {
                let of_all = |Unreachable { route, host, taken_by, .. }: Unreachable| Unreachable {
                    route: places[route],
                    host,
                    listener: name.map(str::to_owned),
                    taken_by: places[taken_by],
                };
                Err(unreachable.into_iter().map(of_all).collect())
            }
        }
    }
}

/// The handler for the requests of all listeners. If no route names a listener, requests need no lookup of their
/// listener.
impl IntoHandler<Self> for ListenerRoutes {
    fn into_handler(self) -> Arc<dyn Handler> {
        if self.named.is_empty() { Arc::new(self.others.routes) } else { Arc::new(TablesByName(self)) }
    }
}

/// Selects the table of the listener of each request. [`ListenerRoutes`] is no handler itself, because the selection
/// costs instructions even if no route names a listener.
struct TablesByName(ListenerRoutes);

impl Handler for TablesByName {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Self(ListenerRoutes { named, others }) = self;
        let name = ListenerSettings::of(request).and_then(|settings| settings.name.as_deref());
        let table = name.and_then(|name| named.iter().find(|(other, _)| other == name));
        table.map_or(others, |(_, table)| table).routes.handle(request)
    }
}
