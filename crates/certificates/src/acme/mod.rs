//! Orders certificates from an ACME server (RFC 8555) with the crate `instant-acme`.
//!
//! ```text
//! Wanted ─▶ Acme ─▶ a renewer for each certificate ─▶ order ─▶ Store ─▶ a file that listeners watch
//!                     until it is due  ▲               │
//!                                      └── backoff ────┤
//!                                                      └─▶ Challenges ─▶ responses of listeners
//! ```
//! Replicas of a gateway can share the account, the certificates and the challenges in a
//! [`SharedSecrets`](crate::replicas::SharedSecrets). Then only one replica orders each certificate.
//!
//! If an order fails, the existing certificate stays in use, and the order is repeated with growing delays.

// settings
mod config;
mod names;

// times
mod due;
mod renewal;

// orders
mod exchange;
mod challenges;
mod material;
mod order;
mod store;
mod acme_client;

// replicas
mod shared_state;
mod shared_order;
mod shared_replicas;
mod shared_access;
mod shared_client;

// background tasks
mod renewer;
mod status;
mod run;
mod error;

pub use challenges::Challenges;
pub use config::{AcmeConfig, ChallengeKind, ExternalAccount, Pace};
pub use error::AcmeError;
pub use names::{InvalidNames, OrderedNames};
pub use run::{Acme, Wanted};
pub use status::CertificateStatus;
