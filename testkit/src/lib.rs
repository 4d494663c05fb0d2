//! Test tools that several crates share: in-memory connections, transcripts of the HTTP/1.1 parsers,
//! reproducible random numbers, and scripted servers.
//!
//! For tests only. This crate never sleeps. Only [`upstream`], [`acme`] and [`ocsp`] open ports. The kernel
//! chooses the port numbers.

pub mod acme;
mod authority;
pub mod heap;
mod jwt_issuer;
mod lock;
pub mod ocsp;
pub mod otlp;
pub mod otlp_metrics;
mod pipe;
mod random;
pub mod corpus;
pub mod request_parser;
pub mod test_server;
pub mod transcript;
pub mod upstream;

pub use authority::CertificateAuthority;
pub use jwt_issuer::JwtIssuer;
pub use pipe::{PipePeer, PipeTransport, pipe};
pub use random::Random;
