//! The current servers of an upstream, and its recently removed servers.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use thruway_client::UpstreamAddr;

use super::removed::RemovedServers;
use super::server_list::ServerList;
use crate::upstream::address::ServerAddr;
use crate::upstream::config::UpstreamConfig;
use crate::upstream::health::server_health::Checked;
use crate::upstream::server::{RetainedState, Server};

/// The servers of an upstream.
#[derive(Debug)]
pub(crate) struct Membership {
    servers: ArcSwap<ServerList>,
    /// Recently removed servers. On reload, the new upstream shares this list.
    removed: Arc<RemovedServers>,
}

/// Result of replacing the servers of a host name.
pub(crate) struct Changed {
    pub(crate) added: List,
    /// `true` if the host name had no servers before.
    pub(crate) is_first: bool,
}

impl Membership {
    /// Returns the servers of a new upstream. A host name has no servers before its first lookup.
    pub(crate) fn new(config: &UpstreamConfig) -> Self {
        let servers = config.servers.iter().enumerate();
        let servers = servers.filter_map(|(origin, server)| match &server.address {
            ServerAddr::Address(address) => Some(Arc::new(Server::new(config, origin, address.clone()))),
            ServerAddr::Name { .. } => None,
        });
        Self { servers: ArcSwap::from_pointee(ServerList::new(servers)), removed: Arc::default() }
    }

    /// Returns the servers for `config`, the config after a reload. `before` is the previous config. Servers
    /// that are still in the config keep their state. Host names keep their addresses until the next lookup.
    pub(crate) fn after(&self, before: &UpstreamConfig, config: &UpstreamConfig) -> Self {
        let servers_before = self.servers.load();
        let retained = |origin, address: &UpstreamAddr, state: Arc<RetainedState>| {
            Arc::new(Server::known(config, origin, address.clone(), state))
        };
        let mut servers = Vec::new();
        for (origin, server) in config.servers.iter().enumerate() {
            match &server.address {
                ServerAddr::Address(address) => {
                    let known = servers_before.list.iter().find(|server| server.address == *address);
                    let state = known.map(|server| server.state.clone()).unwrap_or_default();
                    servers.push(retained(origin, address, state));
                }
                name @ ServerAddr::Name { .. } => {
                    let is_of_name = |server: &&Arc<Server>| {
                        before.servers.get(server.origin).is_some_and(|config| config.address == *name)
                    };
                    let known = servers_before.list.iter().filter(is_of_name);
                    servers
                        .extend(known.map(|server| retained(origin, &server.address, server.state.clone())));
                }
            }
        }
        Self { servers: ArcSwap::from_pointee(ServerList::new(servers)), removed: self.removed.clone() }
    }

    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<ServerList>> {
        self.servers.load()
    }

    pub(crate) fn load_full(&self) -> Arc<ServerList> {
        self.servers.load_full()
    }

    /// Replaces the servers of one host name by servers at `addresses`. `origin` is the index of the host
    /// name in the config. Returns `None` if nothing changes.
    pub(crate) fn replace(
        &self,
        config: &UpstreamConfig,
        origin: usize,
        addresses: &[UpstreamAddr],
        now: Duration,
    ) -> Option<Changed> {
        let before = self.servers.load_full();
        let make = |address: &UpstreamAddr| {
            let state = self.removed.find(address, now).unwrap_or_default();
            // If health checks are now disabled, no later check would replace the result of an earlier check.
            if config.check.is_none() {
                state.health.set_checked(Checked::NotYet);
            }
            Arc::new(Server::known(config, origin, address.clone(), state))
        };
        let (list, added) = replaced(&before.list, origin, addresses, make)?;
        let leaving =
            before.list.iter().filter(|server| !list.iter().any(|other| Arc::ptr_eq(other, server)));
        leaving.for_each(|server| self.removed.add(server, now));
        let is_first = !before.list.iter().any(|server| server.origin == origin);
        self.servers.store(Arc::new(ServerList::new(list)));
        Some(Changed { added, is_first })
    }
}

type List = Vec<Arc<Server>>;

/// Returns the new list of servers in the order of the config, and the servers that `make` has created. In
/// the new list, the host name with the index `origin` has one server for each of `addresses`. Returns `None`
/// if nothing changes.
fn replaced(
    list: &[Arc<Server>],
    origin: usize,
    addresses: &[UpstreamAddr],
    make: impl Fn(&UpstreamAddr) -> Arc<Server>,
) -> Option<(List, List)> {
    let is_of_origin = |server: &&Arc<Server>| server.origin == origin;
    let (mut new, mut of_origin): (List, List) = (Vec::new(), Vec::new());
    for address in addresses {
        let is_at = |server: &&Arc<Server>| server.address == *address;
        if of_origin.iter().any(|server| is_at(&server)) {
            continue;
        }
        let known = list.iter().filter(is_of_origin).find(is_at).cloned();
        of_origin.push(known.unwrap_or_else(|| {
            new.push(make(address));
            new[new.len() - 1].clone()
        }));
    }
    if new.is_empty() && of_origin.len() == list.iter().filter(is_of_origin).count() {
        return None;
    }
    let others = |is_before: bool| {
        let others = list.iter().filter(move |server| server.origin != origin);
        others.filter(move |server| (server.origin < origin) == is_before).cloned()
    };
    let replaced = others(true).chain(of_origin).chain(others(false));
    Some((replaced.collect(), new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::ServerConfig;
    use crate::upstream::scene::address;

    fn list(entries: &[(usize, usize)]) -> List {
        entries.iter().map(|&(origin, port)| server(origin, &address(port))).collect()
    }

    fn server(origin: usize, address: &UpstreamAddr) -> Arc<Server> {
        let config = UpstreamConfig {
            servers: vec![ServerConfig::new(address.clone()); 3],
            ..UpstreamConfig::new("a", [])
        };
        Arc::new(Server::new(&config, origin, address.clone()))
    }

    fn entries(list: &[Arc<Server>]) -> Vec<(usize, String)> {
        list.iter().map(|server| (server.origin, server.address.to_string())).collect()
    }

    #[test]
    fn server_that_stays_in_dns_keeps_its_state_and_place() {
        let before = list(&[(0, 1), (1, 2), (1, 3), (2, 2)]);
        let addresses = [3, 4, 4].map(address);
        let (after, new) = replaced(&before, 1, &addresses, |address| server(1, address)).unwrap();
        let expected =
            [(0, 1), (1, 3), (1, 4), (2, 2)].map(|(origin, port)| (origin, address(port).to_string()));
        assert_eq!(entries(&after), expected);
        assert_eq!(entries(&new), expected[2..3]);
        for (now, then) in [(0, 0), (1, 2), (3, 3)] {
            assert!(Arc::ptr_eq(&after[now], &before[then]));
        }
    }

    #[test]
    fn reordered_addresses_change_nothing() {
        let before = list(&[(0, 1), (1, 2), (1, 3)]);
        let addresses = [3, 2, 3].map(address);
        assert!(replaced(&before, 1, &addresses, |_| unreachable!()).is_none());
    }
}
