//! Membership: the servers of an upstream, from its config and from DNS, and their replacement on reload.

pub(crate) mod server_list;
pub(crate) mod removed;
pub(crate) mod members;
pub(crate) mod dns;
pub(crate) mod reload;
