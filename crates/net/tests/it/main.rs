//! TLS over connections in memory, against rustls itself at the other end.

mod ends;
mod streams;
mod handshakes;
mod breaches;
mod sealed;
mod files;
mod hello;
