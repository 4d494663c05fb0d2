//! Name resolution with direct queries to DNS servers. DNS servers return the TTL of an answer, unlike
//! the system's resolver.
//!
//! ```text
//! /etc/hosts ─▶ resolv.conf: which servers, which names ─▶ A and AAAA ─▶ the addresses, and the least of their TTLs
//! ```
//! This module has no cache: the caller decides when to repeat a lookup. The module supports neither
//! DNSSEC nor DNS over TLS. Like the system's resolver, the module trusts the DNS servers and the network
//! path to them.

mod message;
mod exchange;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use resolv_conf::Config;

use crate::resolve::{Resolve, Resolved, Resolving, ResolvingFor, no_such_name};
use exchange::Servers;
use message::{Answer, Kind};

/// A resolver that queries DNS servers over UDP, and over TCP if an answer was truncated. Entries in
/// `/etc/hosts` have priority over DNS. The resolver ignores `nsswitch.conf`. The resolver does not cache
/// `/etc/hosts` or `resolv.conf`, so changes to these files take effect at the next lookup.
///
/// ```no_run
/// use thruway_client::{DnsResolver, Resolve};
///
/// # async fn example() -> std::io::Result<()> {
/// let resolver = DnsResolver::with_nameservers([([192, 0, 2, 53], 53).into()]);
/// let resolved = resolver.resolve_for("a.example", 443).await?;
/// println!("{:?} for {:?}", resolved.addresses, resolved.holds);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DnsResolver {
    /// The DNS servers. If this list is empty, the resolver queries the servers in `resolv.conf`.
    nameservers: Vec<SocketAddr>,
    hosts: PathBuf,
    resolv_conf: PathBuf,
}

impl Default for DnsResolver {
    /// Returns a resolver with the system's configuration.
    fn default() -> Self {
        Self {
            nameservers: Vec::new(),
            hosts: PathBuf::from("/etc/hosts"),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
        }
    }
}

impl DnsResolver {
    /// Returns a resolver that queries `nameservers` one after the other, until one of them answers. All
    /// other settings come from the system's configuration.
    pub fn with_nameservers(nameservers: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { nameservers: nameservers.into_iter().collect(), ..Self::default() }
    }

    async fn lookup(&self, host: &str, port: u16) -> io::Result<Resolved> {
        let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let known = match name.parse() {
            Ok(address) => vec![address],
            Err(_) => find_in_hosts(&std::fs::read_to_string(&self.hosts).unwrap_or_default(), name),
        };
        if !known.is_empty() {
            return Ok(Resolved::new(known, port, None));
        }
        // If `resolv.conf` is missing or invalid, use the defaults that resolv.conf(5) describes.
        let config = Config::parse(std::fs::read(&self.resolv_conf).unwrap_or_default()).unwrap_or_default();
        let servers = self.servers(&config);
        for candidate in candidates(name, &config) {
            if let Some(answer) = ask_both(&servers, &candidate).await? {
                return Ok(Resolved::new(answer.addresses, port, Some(answer.holds)));
            }
        }
        Err(no_such_name())
    }

    fn servers(&self, config: &Config) -> Servers {
        let configured = || config.get_nameservers_or_local().into_iter();
        let configured = || configured().map(|address| SocketAddr::new(IpAddr::from(address), DNS_PORT));
        let addresses =
            if self.nameservers.is_empty() { configured().collect() } else { self.nameservers.clone() };
        Servers {
            addresses,
            timeout: Duration::from_secs(config.timeout.clamp(1, TIMEOUT_SECONDS_MAX).into()),
            attempts: config.attempts.clamp(1, 5),
        }
    }
}

impl Resolve for DnsResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(self.lookup(host, port).await?.addresses) })
    }

    fn resolve_for<'a>(&'a self, host: &'a str, port: u16) -> ResolvingFor<'a> {
        Box::pin(self.lookup(host, port))
    }
}

/// Queries the IPv4 and the IPv6 addresses of `name`. Returns `None` if the name does not exist or has no
/// address. If the IPv4 query fails, the lookup fails. If the IPv6 query fails, the result contains the
/// IPv4 addresses, because some servers do not answer IPv6 queries correctly. Without IPv4 addresses, a
/// failed IPv6 query makes the lookup fail.
async fn ask_both(servers: &Servers, name: &str) -> io::Result<Option<Answer>> {
    let (v4, v6) = tokio::join!(servers.ask(name, Kind::A), servers.ask(name, Kind::Aaaa));
    let (mut answer, v6) = match (v4?, v6) {
        (Some(v4), Ok(Some(v6))) => (v4, v6),
        (Some(v4), _) => return Ok(Some(v4)),
        (None, v6) => return v6,
    };
    answer.addresses.extend(v6.addresses);
    answer.holds = answer.holds.min(v6.holds);
    Ok(Some(answer))
}

/// Returns the names to query, in order (resolv.conf(5)). If `name` has at least `ndots` dots, `name`
/// comes first, and then `name.domain`, where `domain` is the search domain. Otherwise, `name.domain`
/// comes first. If `name` ends with a dot, the resolver queries only `name`.
fn candidates(name: &str, config: &Config) -> Vec<String> {
    if name.ends_with('.') {
        return vec![name.to_owned()];
    }
    let below = config.get_last_search_or_domain().map(|domain| format!("{name}.{domain}"));
    let itself = [name.to_owned()].into_iter();
    let dots = name.bytes().filter(|byte| *byte == b'.').count();
    if dots >= config.ndots as usize { itself.chain(below).collect() } else { below.chain(itself).collect() }
}

const DNS_PORT: u16 = 53;

/// Maximum time to wait for one server, in seconds. This limit is short, so that a second server can
/// answer before the caller's timeout.
const TIMEOUT_SECONDS_MAX: u32 = 2;

/// Returns the addresses for `name` in `text`, which has the format of `/etc/hosts` (hosts(5)). Ignores case.
fn find_in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    lines.collect()
}
