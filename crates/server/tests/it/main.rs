//! Tests of the server through its clients: mostly with connections in memory and virtual time, and with
//! loopback sockets where sockets matter.

mod gate;

mod compression;
mod content;
mod ending;
mod extractors;
mod files;
mod interim;
mod multipart;
mod pipelining;
mod records;
mod testing;
mod trusted;
mod refusals;
mod removal;
mod responses;
mod routing;
mod timeouts;
mod tracing;
mod tunnels;
mod wakings;
mod http2;
