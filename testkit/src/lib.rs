//! Test tools that several crates share: in-memory connections, transcripts of the HTTP/1.1 parsers,
//! reproducible random numbers, and scripted servers.
//!
//! For tests only. This crate never sleeps. Only [`upstream`], [`acme`] and [`ocsp`] open ports. The kernel
//! chooses the port numbers.

pub mod corpus;
pub mod heap;
mod random;
pub mod request_parser;
pub mod transcript;

#[cfg(feature = "network")]
pub mod acme;
#[cfg(feature = "network")]
mod authority;
#[cfg(feature = "network")]
mod jwt_issuer;
#[cfg(feature = "network")]
mod lock;
#[cfg(feature = "network")]
pub mod ocsp;
#[cfg(feature = "network")]
pub mod otlp;
#[cfg(feature = "network")]
pub mod otlp_metrics;
#[cfg(feature = "network")]
mod pipe;
#[cfg(feature = "network")]
mod redis_server;
#[cfg(feature = "network")]
pub mod test_server;
#[cfg(feature = "network")]
pub mod upstream;

pub use random::Random;

#[cfg(feature = "network")]
pub use authority::CertificateAuthority;
#[cfg(feature = "network")]
pub use jwt_issuer::JwtIssuer;
#[cfg(feature = "network")]
pub use pipe::{PipePeer, PipeTransport, pipe};
#[cfg(feature = "network")]
pub use redis_server::redis_server;
