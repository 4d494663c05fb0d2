//! Tests of certificates from an ACME server in this process, for a running site.

mod scene;
mod issuing;
mod keeping;
mod failing;
mod stapling;
mod fleet;
mod sharing;
mod tickets;
mod losing;
