//! Names to addresses.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use crate::UpstreamAddr;

/// What resolves names. The system's way is [`SystemResolver`]; [`DnsResolver`](crate::DnsResolver) knows how long an answer holds.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// All addresses of `host`, in the order in which to try them, with `port`.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;

    /// The same, and for how long that holds. Default without an opinion on that.
    fn resolve_for<'a>(&'a self, host: &'a str, port: u16) -> ResolvingFor<'a> {
        let addresses = self.resolve(host, port);
        Box::pin(async move { Ok(Resolved { addresses: addresses.await?, holds: None }) })
    }
}

/// What a name was resolved to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// The addresses, in the order in which to try them.
    pub addresses: Vec<UpstreamAddr>,
    /// For how long they hold (TTL); `None` if nobody has said.
    pub holds: Option<Duration>,
}

impl Resolved {
    pub(crate) fn new(addresses: Vec<IpAddr>, port: u16, holds: Option<Duration>) -> Self {
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, port).into());
        Self { addresses: addresses.collect(), holds }
    }
}

/// A name being resolved, by somebody who knows for how long that will hold.
pub type ResolvingFor<'a> = Pin<Box<dyn Future<Output = io::Result<Resolved>> + Send + 'a>>;

/// A name being resolved.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<UpstreamAddr>>> + Send + 'a>>;

/// Resolves as the system is set up to: `/etc/hosts`, `nsswitch.conf`. That blocks, so it happens on a thread beside
/// that of the worker.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(resolve(host, port))
    }
}

/// All addresses of `host`, which may be an IP address, with or without brackets.
///
/// # Errors
/// The name is not known, or the system cannot ask.
///
/// # Cancel safety
/// If the future is dropped, the answer is.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<UpstreamAddr>> {
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let addresses = tokio::net::lookup_host((name, port)).await?;
    Ok(addresses.map(UpstreamAddr::from).collect())
}
