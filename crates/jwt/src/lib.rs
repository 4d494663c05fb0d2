//! Verification of JSON Web Tokens (RFC 7519): keys, signatures and claims. This crate does not fetch keys,
//! reads no clock, and does not use HTTP.
//!
//! Each key has a fixed list of signature algorithms. A key verifies a token only if this list contains the
//! algorithm that the token names. So an attacker cannot misuse a public RSA key as an HMAC secret, and the
//! algorithm `none` is always rejected.
//!
//! ```
//! use std::time::Duration;
//!
//! use thruway_jwt::{JwtError, JwtKeys, JwtRules};
//!
//! let keys = JwtKeys::from_secret("a secret of at least thirty-two bytes")?;
//! let rules = JwtRules { issuer: Some("https://login.example".to_owned()), ..JwtRules::default() };
//! let now = Duration::from_secs(1_800_000_000);
//! assert_eq!(rules.verify(b"no.token.here", &keys, now), Err(JwtError::Invalid));
//! # Ok::<_, thruway_jwt::InvalidJwtKeys>(())
//! ```
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

mod keys;
mod verify;

pub use jsonwebtoken::Algorithm as JwtAlgorithm;

pub use keys::{InvalidJwtKeys, JwtKeys};
pub use verify::{JwtError, JwtRules};
