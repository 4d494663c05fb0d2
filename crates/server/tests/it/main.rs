//! The server as its clients see it: connections in memory with virtual time, and on loopback where sockets
//! matter.

mod gate;

mod compression;
mod content;
mod ending;
mod files;
mod interim;
mod pipelining;
mod records;
mod trusted;
mod refusals;
mod removal;
mod responses;
mod routing;
mod timeouts;
mod tunnels;
mod wakings;
mod http2;
