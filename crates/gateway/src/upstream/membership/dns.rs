//! Looks up the addresses of servers in DNS, at the start and at intervals.
//!
//! With `resolver = "dns"`, the time to live in DNS responses determines the interval. The resolver of the
//! system reports no time to live, so the config sets the interval. After a failed lookup, the upstream keeps
//! its servers. A server keeps its state if its address stays in DNS, or returns to DNS within ten minutes.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_client::{Resolve, Resolved, UpstreamAddr};
use thruway_net::Clock;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::timeout;

use crate::upstream::address::ServerAddr;
use crate::upstream::background;
use crate::upstream::config::UpstreamConfig;
use crate::upstream::health::checks;
use crate::upstream::health::ejection::milliseconds;
use crate::upstream::upstream::Upstream;

/// The first DNS lookup of the host names of an upstream.
#[derive(Debug)]
#[must_use = "host names have no servers until the first lookup has ended"]
pub struct FirstLookup(Option<Receiver<()>>);

impl FirstLookup {
    /// Waits until the first lookup of each host name has succeeded or failed.
    pub fn wait(self) {
        if let Some(done) = self.0 {
            // The wait also ends if the background task of the lookups ends.
            let _ = done.recv();
        }
    }
}

/// A host name in the config. `has_failed` is `true` if the last lookup of the name has failed.
struct Name {
    /// Index of the server in the config.
    origin: usize,
    host: String,
    port: u16,
    has_failed: bool,
}

/// The result of a DNS lookup for one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerLookup {
    /// Index of the server in the config. The first server has the index 0.
    pub server: usize,
    /// The addresses that the lookup has found.
    pub addresses: Vec<UpstreamAddr>,
    /// The reason why the lookup failed. `None` if the lookup succeeded, even if it found no address.
    pub error: Option<String>,
}

/// Looks up the host names of an upstream's servers once, all at the same time. Waits for at most the time
/// `within`. The command that checks a config calls this function.
pub async fn look_up_servers(config: &UpstreamConfig, within: Duration) -> Vec<ServerLookup> {
    let resolver = config.resolver.resolver();
    let mut lookups = JoinSet::new();
    for (place, server) in config.servers.iter().enumerate() {
        let ServerAddr::Name { host, port } = server.address.clone() else { continue };
        let resolver = resolver.clone();
        lookups.spawn(async move {
            let answer = timeout(within, resolver.resolve_for(&host, port)).await;
            match answer.unwrap_or_else(|_| Err(io::Error::other("no DNS server answers in time"))) {
                Ok(answer) => ServerLookup { server: place, addresses: answer.addresses, error: None },
                Err(error) => {
                    let error = (error.kind() != io::ErrorKind::NotFound).then(|| error.to_string());
                    ServerLookup { server: place, addresses: Vec::new(), error }
                }
            }
        });
    }
    let mut found = lookups.join_all().await;
    found.sort_unstable_by_key(|one| one.server);
    found
}

/// Starts the DNS lookups for `upstream`. The lookups end when the upstream is dropped.
pub(crate) fn start(upstream: &Arc<Upstream>, resolver: Arc<dyn Resolve>) -> FirstLookup {
    let names = names_of(upstream);
    if names.is_empty() {
        return FirstLookup(None);
    }
    let servers = upstream.members.load();
    let is_known = |name: &Name| servers.list.iter().any(|server| server.origin == name.origin);
    let are_known = names.iter().all(is_known);
    let (done, is_done) = channel();
    let upstream = Arc::downgrade(upstream);
    background::spawn(|| run(upstream, names, resolver, done));
    // If all names already have addresses, the caller need not wait for the first lookup.
    FirstLookup((!are_known).then_some(is_done))
}

fn names_of(upstream: &Upstream) -> Vec<Name> {
    let servers = upstream.config.servers.iter().enumerate();
    let names = servers.filter_map(|(origin, server)| match &server.address {
        ServerAddr::Address(_) => None,
        ServerAddr::Name { host, port } => {
            Some(Name { origin, host: host.clone(), port: *port, has_failed: false })
        }
    });
    names.collect()
}

async fn run(upstream: Weak<Upstream>, mut names: Vec<Name>, resolver: Arc<dyn Resolve>, done: Sender<()>) {
    let (mut done, clock) = (Some(done), Clock::system());
    loop {
        let mut pause = TTL_MAX;
        // All lookups run at the same time, so that a slow lookup does not delay the others.
        let lookups: Vec<_> = names.iter().map(|name| spawn_local(look_up(name, &resolver))).collect();
        for (name, lookup) in names.iter_mut().zip(lookups) {
            let answer = lookup.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            // The task must not keep the upstream alive.
            let Some(upstream) = upstream.upgrade().filter(|upstream| !upstream.is_replaced()) else {
                return;
            };
            let holds = answer.as_ref().ok().and_then(|answer| answer.holds);
            let has_addresses =
                take_addresses(&upstream, name, answer.map(|answer| answer.addresses), &clock);
            pause = pause.min(pause_after(has_addresses, holds, upstream.config.resolve_interval));
        }
        // Dropping the sender ends the wait for the first lookup.
        drop(done.take());
        tokio::time::sleep(checks::with_jitter(pause)).await;
    }
}

/// Looks up the addresses of a host name.
fn look_up(name: &Name, resolver: &Arc<dyn Resolve>) -> impl Future<Output = io::Result<Resolved>> + 'static {
    let (resolver, host, port) = (resolver.clone(), name.host.clone(), name.port);
    async move {
        let outcome = timeout(LOOKUP_MAX, resolver.resolve_for(&host, port)).await;
        outcome.unwrap_or_else(|elapsed| Err(elapsed.into()))
    }
}

/// Returns the time until the next lookup.
fn pause_after(has_addresses: bool, holds: Option<Duration>, interval: Duration) -> Duration {
    match holds {
        _ if !has_addresses => interval.min(FAILED_INTERVAL),
        Some(holds) => holds.clamp(TTL_MIN, TTL_MAX),
        None => interval,
    }
}

/// Replaces the servers of `name` after a lookup, and returns `true`. If the lookup failed or found no
/// addresses, keeps the previous servers and returns `false`.
fn take_addresses(
    upstream: &Arc<Upstream>,
    name: &mut Name,
    addresses: io::Result<Vec<UpstreamAddr>>,
    clock: &Clock,
) -> bool {
    let (label, host) = (upstream.name(), &name.host);
    let addresses = match addresses {
        Ok(addresses) if !addresses.is_empty() => addresses,
        other => {
            let reason = other.err().map_or_else(|| "no address".to_owned(), |error| error.to_string());
            if !name.has_failed {
                tracing::warn!(
                    upstream = label,
                    host,
                    reason,
                    "DNS lookup failed, keeping the previous addresses"
                );
            }
            name.has_failed = true;
            return false;
        }
    };
    if name.has_failed {
        tracing::info!(upstream = label, host, "DNS lookup works again");
    }
    name.has_failed = false;
    replace_servers(upstream, name.origin, &addresses, clock);
    true
}

/// Replaces the servers of one host name by servers at `addresses`. `origin` is the index of the host name in
/// the config.
fn replace_servers(upstream: &Arc<Upstream>, origin: usize, addresses: &[UpstreamAddr], clock: &Clock) {
    let now = clock.now();
    let Some(changed) = upstream.members.replace(&upstream.config, origin, addresses, now) else { return };
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let addresses = addresses.join(", ");
    let name = &upstream.config.servers[origin].address;
    tracing::info!(upstream = upstream.name(), %name, addresses, "DNS lookup: addresses changed");
    for server in changed.added {
        if !changed.is_first {
            server.health().end_ejection(milliseconds(now));
        }
        checks::start(upstream, &server);
    }
}

/// Maximum time for the lookup of one name. The resolver of the system may try several DNS servers.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// Maximum interval after a failed lookup. The interval is short, because requests may fail until a lookup
/// succeeds.
const FAILED_INTERVAL: Duration = Duration::from_secs(2);

/// Minimum time between two lookups, used if the time to live is shorter.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Maximum time between two lookups, used if the time to live is longer. With this limit, a mistake in a DNS
/// zone has effects for at most one hour.
const TTL_MAX: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_answer_is_reused_for_its_ttl_within_bounds() {
        let (seconds, interval) = (Duration::from_secs, Duration::from_secs(30));
        for (holds, pause) in
            [(None, 30), (Some(0), 1), (Some(7), 7), (Some(300), 300), (Some(86_400), 3_600)]
        {
            assert_eq!(pause_after(true, holds.map(seconds), interval), seconds(pause));
        }
        assert_eq!(pause_after(false, None, interval), FAILED_INTERVAL);
        assert_eq!(pause_after(false, None, seconds(1)), seconds(1));
    }
}
