//! Name resolution.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use dns_lookup::{AddrInfoHints, LookupError, LookupErrorKind, SockType, getaddrinfo};

use crate::UpstreamAddr;

/// A resolver for host names. [`SystemResolver`] uses the resolver of the system.
/// [`DnsResolver`](crate::DnsResolver) also returns the TTL of the result.
///
/// If a name does not exist or has no address, the resolver returns an error of the kind
/// [`NotFound`](io::ErrorKind::NotFound). Any other error means that the lookup failed.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Returns all addresses of `host` with `port`, in the order in which to try them.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;

    /// Returns the addresses of `host` with `port`, and the TTL of the addresses. By default, the TTL is
    /// unknown.
    fn resolve_for<'a>(&'a self, host: &'a str, port: u16) -> ResolvingFor<'a> {
        let addresses = self.resolve(host, port);
        Box::pin(async move { Ok(Resolved { addresses: addresses.await?, holds: None }) })
    }
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The addresses, in the order in which to try them.
    pub addresses: Vec<UpstreamAddr>,
    /// Time for which the addresses are valid (TTL). `None` if the TTL is unknown.
    pub holds: Option<Duration>,
}

impl Resolved {
    pub(crate) fn new(addresses: Vec<IpAddr>, port: u16, holds: Option<Duration>) -> Self {
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, port).into());
        Self { addresses: addresses.collect(), holds }
    }
}

/// A pending lookup that returns the addresses with their TTL.
pub type ResolvingFor<'a> = Pin<Box<dyn Future<Output = io::Result<Resolved>> + Send + 'a>>;

/// A pending lookup that returns only the addresses.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<UpstreamAddr>>> + Send + 'a>>;

/// Resolves names as the system is configured, for example with `/etc/hosts` and `nsswitch.conf`. The
/// system call blocks, so it runs on a separate thread.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(resolve(host, port))
    }
}

/// Returns all addresses of `host` with `port`, from the system's resolver. `host` may also be an IP
/// address, with or without brackets.
///
/// # Errors
/// Returns [`NotFound`](io::ErrorKind::NotFound) if the name does not exist or has no address. Any other
/// error means that the lookup failed.
///
/// # Cancel safety
/// Dropping the future discards the result of the lookup.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<UpstreamAddr>> {
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port).into()]);
    }
    let name = name.to_owned();
    tokio::task::spawn_blocking(move || ask_system(&name, port)).await?
}

/// Calls `getaddrinfo` directly. The errors of `tokio` and of the standard library do not reliably show that
/// a name does not exist.
fn ask_system(name: &str, port: u16) -> io::Result<Vec<UpstreamAddr>> {
    let hints = AddrInfoHints { socktype: SockType::Stream.into(), ..AddrInfoHints::default() };
    let found = getaddrinfo(Some(name), None, Some(hints)).map_err(failure)?;
    let addresses = found.map(|one| {
        let mut address = one?.sockaddr;
        address.set_port(port);
        Ok(address.into())
    });
    addresses.collect()
}

/// Converts an error to one of the error kinds that [`Resolve`] specifies.
fn failure(error: LookupError) -> io::Error {
    let kind = error.kind();
    let error = io::Error::from(error);
    match kind {
        LookupErrorKind::NoName | LookupErrorKind::NoData => no_such_name(),
        // The system did not find one of its configuration files. The name may still exist.
        _ if error.kind() == io::ErrorKind::NotFound => io::Error::other(error),
        _ => error,
    }
}

pub(crate) fn no_such_name() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name does not exist or has no address")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn lookup_failures_differ_from_names_that_do_not_exist() {
        // The values in `netdb.h`: EAI_NONAME, EAI_NODATA, EAI_AGAIN, EAI_FAIL, EAI_MEMORY.
        let is_not_found = |code| failure(LookupError::new(code)).kind() == io::ErrorKind::NotFound;
        assert_eq!([-2, -5, -3, -4, -10].map(is_not_found), [true, true, false, false, false]);
        let again = failure(LookupError::new(-3)).to_string();
        assert!(again.contains("failure in name resolution") || again.contains("Try again"), "{again}");
        // EAI_SYSTEM: the system did not find one of its files.
        let missing = LookupError::from(io::Error::from(io::ErrorKind::NotFound));
        assert_ne!(failure(missing).kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn system_resolver_finds_localhost_and_rejects_invalid_names() {
        let addresses = ask_system("localhost", 80).unwrap();
        assert!(addresses.contains(&SocketAddr::from(([127, 0, 0, 1], 80)).into()), "{addresses:?}");
        assert_eq!(ask_system("a\0b", 80).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
