//! Health: which servers may get requests, by checks, by failed requests, by their own wish and by the
//! operator.

pub(crate) mod status_range;
pub(crate) mod ejection;
pub(crate) mod admin_state;
pub(crate) mod latency;
pub(crate) mod server_health;
pub(crate) mod monitor;
pub(crate) mod checks;
