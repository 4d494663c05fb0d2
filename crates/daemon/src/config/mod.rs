//! What `thruway serve` is told to do: read from a file ([`raw`]), then resolved so that nothing is left to interpret.

mod raw;
mod spanned;
mod settings;
pub(crate) mod forward;
mod environment;
mod filled;
mod schema;
mod resolver;
mod acme;
mod compression;
mod proxies;
mod resolve;
mod failure;
mod places;
mod file;
pub(crate) mod own_listeners;
pub(crate) mod usage;
mod secrets;
mod shown;
mod code;
pub(crate) mod references;
#[cfg(test)]
mod tests;

pub use failure::{Failure, Finding, Severity};
pub use file::ConfigSource;
pub use schema::schema;
pub(crate) use settings::{
    AccessLogConfig, Action, AdminConfig, FilesConfig, FixedAnswer, Http2, HttpsRedirect, ListenerConfig,
    ListenerTlsConfig, Policies, TcpListenerConfig, Upstreams,
};
pub use settings::{Config, Route, parse_listeners};
use settings::{LISTED_HINT, is_listed};
use spanned::Span;
