//! Names to addresses.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use crate::UpstreamAddr;

/// What resolves names. The system's way is [`SystemResolver`]; a resolver of its own, which knows how long an answer
/// holds, is for the gateway to bring.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// All addresses of `host`, in the order in which to try them, with `port`.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

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
