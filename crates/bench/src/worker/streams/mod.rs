//! HTTP/2: many concurrent requests of a connection.

mod watched;
mod exchange;
mod connection;

pub(super) use connection::Streams;
pub(super) use watched::SpareBuffer;
