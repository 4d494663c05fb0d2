//! HTTP/2: many requests on a connection at the same time.

mod watched;
mod exchange;
mod connection;

pub(super) use connection::Streams;
pub(super) use watched::SpareBuffer;
