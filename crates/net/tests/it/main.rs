//! TLS tests over connections in memory, with rustls at the other end.

mod ends;
mod streams;
mod handshakes;
mod breaches;
mod sealed;
mod files;
mod issued;
mod hello;
