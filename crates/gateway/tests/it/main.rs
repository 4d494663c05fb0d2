//! Tests of gateways over real sockets, with simple clients and unreliable upstream servers.

// Gateway and upstream servers
mod backend;
mod gateway;

// Failing servers
mod ejection;
mod fleet_health;
mod checks;

// Choice of the server
mod names;
mod reload;
mod sticky;
mod speed;

// TLS
mod secured;

// Limits
mod limits;

// Forwarding
mod forward;
mod http2;
mod smuggling;

// Policies
mod policies;

// CONNECT tunnels
mod connect;

// TCP streams
mod tcp;
