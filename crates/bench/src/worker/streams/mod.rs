//! HTTP/2 connections with many concurrent requests.

mod watched;
mod exchange;
mod connection;

pub(super) use connection::Streams;
pub(super) use watched::SpareBuffer;
