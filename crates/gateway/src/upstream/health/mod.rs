//! Health of servers: checks, failed requests, `Retry-After`, and the admin state.

pub(crate) mod status_range;
pub(crate) mod ejection;
pub(crate) mod admin_state;
pub(crate) mod latency;
pub(crate) mod server_health;
pub(crate) mod monitor;
pub(crate) mod checks;
pub(crate) mod sharing;
