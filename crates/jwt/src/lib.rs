//! Verification of JSON Web Tokens (RFC 7519): keys, signatures and claims. This crate does not fetch keys and knows nothing of HTTP.
//!
//! A key says which algorithms it is for, and a token is only ever checked by keys that are for its algorithm: a public key cannot
//! become a secret, and there is no algorithm `none`.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

mod keys;
mod verify;

pub use jsonwebtoken::Algorithm as JwtAlgorithm;

pub use keys::{InvalidJwtKeys, JwtKeys};
pub use verify::{JwtError, JwtRules};
