//! Sockets of the relay.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Listens on `address`.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket_for(address)?;
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit the option, which saves one system call per connection.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(contract::BACKLOG.cast_unsigned())
}

/// Creates a socket of the address family of `address`.
pub(crate) fn socket_for(address: SocketAddr) -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}
