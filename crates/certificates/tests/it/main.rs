//! Certificates from a server of our own, for a site that is there.

mod scene;
mod issuing;
mod keeping;
mod failing;
mod stapling;
