//! Builds a gateway in code. Two servers get requests in turn.

use std::net::SocketAddr;

use thruway_client::UpstreamAddr;
use thruway_daemon::{Config, Daemon, Failure, Route};
use thruway_gateway::{PathMatch, RouteMatch, UpstreamConfig};

pub(crate) fn gateway(address: &str, servers: [SocketAddr; 2]) -> Result<Config, Failure> {
    let everything = RouteMatch::at(PathMatch::Prefix("/".to_owned()));
    Config::default()
        .listen(address)?
        .upstream(UpstreamConfig::new("backend", servers.map(UpstreamAddr::from)))
        .route(Route::forward(everything, "backend"))
        .admin("127.0.0.1:0")
}

fn main() -> Result<(), Failure> {
    let servers = [9001, 9002].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let daemon = Daemon::from_config(gateway("127.0.0.1:8080", servers)?)?;
    daemon.run()?; // Runs until `SIGTERM`. Then completes the accepted requests, and ends.
    Ok(())
}
