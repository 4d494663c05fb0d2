//! Resolves the addresses of a server, and finds the first address that accepts connections.

use std::time::Duration;

use thruway_client::{ConnectError, UpstreamAddr, connect, resolve};

use super::error::PlanError;
use crate::requests::Origin;
use crate::run::RunError;

/// Returns the addresses of `origin` (at least one). Blocks until DNS has resolved the host name.
///
/// # Errors
/// Returns an error if the name cannot be resolved or has no address.
pub fn resolve_origin(origin: &Origin) -> Result<Vec<UpstreamAddr>, PlanError> {
    let (host, port) = match origin {
        Origin::Unix(path) => return Ok(vec![UpstreamAddr::unix(path)]),
        Origin::Tcp { host, port } => (host, *port),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.and_then(|runtime| runtime.block_on(resolve(host, port)));
    let addresses = found.map_err(|error| PlanError::Resolve(host.clone(), error))?;
    if addresses.is_empty() {
        return Err(PlanError::AddressMissing(host.clone()));
    }
    Ok(addresses)
}

/// Returns the first of `addresses` that accepts a connection. A name may resolve to addresses at which the
/// server does not listen. Blocks for at most 5 seconds per address.
///
/// # Errors
/// Returns an error if no address accepts a connection.
pub fn reachable_address(addresses: &[UpstreamAddr]) -> Result<UpstreamAddr, PlanError> {
    let mut last = PlanError::AddressesMissing;
    for address in addresses {
        match reach(address) {
            Ok(()) => return Ok(address.clone()),
            Err(error) => last = PlanError::Run(RunError::Connect(address.clone(), error.into())),
        }
    }
    Err(last)
}

fn reach(address: &UpstreamAddr) -> Result<(), ConnectError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ConnectError::Other(error.kind()))?;
    runtime.block_on(connect(address, REACH_TIMEOUT)).map(drop)
}

const REACH_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_a_listener_is_skipped() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = free.local_addr().unwrap();
        drop(free);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = UpstreamAddr::from(listener.local_addr().unwrap());
        assert_eq!(reachable_address(&[closed.into(), open.clone()]).unwrap(), open);
        let refused = reachable_address(&[closed.into()]).unwrap_err();
        assert!(
            refused.hint().is_some_and(|hint| hint.contains("check that the server runs and uses this port")),
            "{refused}"
        );
    }
}
