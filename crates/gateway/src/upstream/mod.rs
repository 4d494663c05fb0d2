//! Upstreams: groups of servers that handle the same requests, and the selection of a server.
//!
//! ```text
//! Upstream ─┬─ membership   its servers: names, DNS, reload, removed servers
//!           ├─ health       which may get requests: checks, ejection, admin state, slow start, latency
//!           ├─ selection    which one is next: tiers, balancing, sticky sessions
//!           └─ connections  pool, limits, queue, HTTP/2 sharing
//!
//! RequestKey ─▶ ServerSlot::select ─▶ acquire a connection ─▶ exchange ─▶ ServerSlot::responded or failed
//!                                                                         └─▶ health
//! ```
//! The health of servers is in atomic variables that all workers share, so a request takes no lock. Each
//! connection belongs to one worker.

// an upstream and its config
mod config;
mod address;
#[expect(clippy::module_inception, reason = "the file of the type `Upstream`")]
mod upstream;
mod membership;
mod health;
mod selection;
mod connections;

// a server, and a request in progress
mod server;
mod request_key;
mod server_slot;
mod retry_budget;

// background tasks
mod background;
mod statistics;
mod status;

#[cfg(test)]
mod scene;

pub use address::{InvalidServerAddr, ServerAddr};
pub use config::{ResolverConfig, ServerConfig, UpstreamConfig, UpstreamTls};
pub(crate) use connections::acquire::{Acquired, acquire_within_limit};
pub(crate) use connections::connect::connect;
pub(crate) use connections::exchange::{Exchange, ResponsePoll, Upgraded};
pub(crate) use connections::open::{NotOpened, Purpose, open_within};
pub use connections::queue::{QueueConfig, WaitingCounts};
pub use health::admin_state::AdminState;
pub use health::checks::config::{CheckConfig, CheckKind};
pub use health::ejection::EjectionConfig;
pub use health::server_health::StateChange;
pub use health::sharing::{HealthEvent, HealthNews, HealthSharing, HealthSharingCounts};
pub use health::status_range::{InvalidStatusRange, StatusRange};
pub use membership::dns::{FirstLookup, ServerLookup, look_up_servers};
pub(crate) use request_key::RequestKey;
pub use retry_budget::RetryBudget;
pub(crate) use selection::balance_config::mix;
pub use selection::balance_config::{Balance, HashBy};
pub use selection::sticky::Sticky;
pub(crate) use server::Server;
pub(crate) use server_slot::ServerSlot;
pub use statistics::ResponseCounts;
pub use status::{ServerState, ServerStatus};
pub use upstream::Upstream;
