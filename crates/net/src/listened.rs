//! Records the addresses on which this process listens. By default, a client that can choose the target of
//! a connection must not reach these addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All TCP addresses on which this process listens.
static LISTENED: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

/// Registration of an address on which this process listens. Dropping this value removes the registration.
#[derive(Debug)]
pub(crate) struct ListenerAddress(SocketAddr);

impl ListenerAddress {
    pub(crate) fn new(address: SocketAddr) -> Self {
        listened().push(address);
        Self(address)
    }
}

impl Drop for ListenerAddress {
    fn drop(&mut self) {
        let mut listened = listened();
        if let Some(place) = listened.iter().position(|address| *address == self.0) {
            listened.swap_remove(place);
        }
    }
}

/// Returns `true` if a connection to `address` reaches a listener of this process.
pub fn is_listened_on(address: SocketAddr) -> bool {
    match listened_on(address) {
        ListenedOn::ThisAddress => true,
        ListenedOn::AllAddresses => is_of_this_machine(address.ip()),
        ListenedOn::Nowhere => false,
    }
}

/// Result of [`listened_on`]: the kind of listener that a connection may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ListenedOn {
    /// This process has no listener for the address.
    Nowhere,
    /// This process has a listener for exactly this address.
    ThisAddress,
    /// This process listens on all addresses of this machine. A connection reaches the listener if the
    /// address belongs to this machine.
    AllAddresses,
}

/// Searches the listeners of this process for `address`.
pub(crate) fn listened_on(address: SocketAddr) -> ListenedOn {
    let ip = address.ip().to_canonical();
    let mut found = ListenedOn::Nowhere;
    for own in listened().iter().filter(|own| own.port() == address.port()) {
        if own.ip() == ip {
            return ListenedOn::ThisAddress;
        }
        // A listener for `[::]` accepts no IPv4 connections.
        if own.ip().is_unspecified() && own.ip().is_ipv4() == ip.is_ipv4() {
            found = ListenedOn::AllAddresses;
        }
    }
    found
}

/// Returns `true` if `address` is an address of this machine, including addresses that other machines can
/// reach. The check sends no packets.
pub fn is_of_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    has_own_address(UdpSocket::bind((any, 0)), address)
}

/// Returns `true` if the kernel chooses `address` as the source address for packets to `address`. The
/// kernel chooses such a source address only if `address` belongs to this machine.
fn has_own_address(socket: io::Result<UdpSocket>, address: IpAddr) -> bool {
    let Ok(socket) = socket else {
        // Without a socket, the result is unknown. Callers use this check to block access, so `true` is the
        // safe result.
        return true;
    };
    let source = socket.connect((address, ANY_PORT)).and_then(|()| socket.local_addr());
    source.is_ok_and(|local| local.ip() == address)
}

fn listened() -> MutexGuard<'static, Vec<SocketAddr>> {
    LISTENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The port does not matter, because the socket sends no packets.
const ANY_PORT: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::ListenAddr;
    use crate::bind::bind;

    fn bound(text: &str) -> (crate::Bound, u16) {
        let bound = bind(&text.parse().unwrap(), 1, 1).unwrap();
        let ListenAddr::Tcp(address) = bound.address().clone() else { panic!("not a TCP address") };
        (bound, address.port())
    }

    #[test]
    fn address_counts_as_listened_on_until_the_listener_closes() {
        let (bound, port) = bound("127.0.0.1:0");
        let at = |ip: &str| is_listened_on((ip.parse::<IpAddr>().unwrap(), port).into());
        assert!(at("127.0.0.1") && at("::ffff:127.0.0.1"));
        assert!(!at("127.0.0.2") && !at("::1") && !at("192.0.2.1"));
        drop(bound);
        assert!(!at("127.0.0.1"));
    }

    #[test]
    fn wildcard_listener_covers_all_local_addresses() {
        let (_bound, port) = bound("0.0.0.0:0");
        let at = |ip: &str| is_listened_on((ip.parse::<IpAddr>().unwrap(), port).into());
        assert!(at("127.0.0.1") && at("127.0.0.2") && at("0.0.0.0"));
        assert!(!at("192.0.2.1"), "the address belongs to another machine");
    }

    /// Exhausted descriptors once made every address count as remote, so that tunnels could reach this
    /// machine.
    #[test]
    fn unknown_address_counts_as_local() {
        let other = "192.0.2.1".parse().unwrap();
        let used_up = || Err(io::Error::from_raw_os_error(EMFILE));
        assert!(has_own_address(used_up(), other));
        assert!(!has_own_address(UdpSocket::bind("0.0.0.0:0"), other));
    }

    /// The error for exhausted descriptors.
    const EMFILE: i32 = 24;

    #[test]
    fn local_and_remote_addresses_are_distinguished() {
        for own in ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"] {
            assert!(is_of_this_machine(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.1", "198.51.100.1", "2001:db8::1"] {
            assert!(!is_of_this_machine(other.parse().unwrap()), "{other}");
        }
    }
}
