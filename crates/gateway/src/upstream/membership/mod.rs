//! Membership: the servers of an upstream, from its config and from DNS, and their replacement on reload.

pub(crate) mod dns;
pub(crate) mod removed;
pub(crate) mod reload;
