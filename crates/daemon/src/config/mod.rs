//! The config of `thruway serve`. Parses a config file, and resolves it to complete settings. Each section
//! of the file has a module with its keys, defaults and checks.

// parsing, checks and errors of a config file
mod parse;
mod values;
mod resolver;
mod whole_file;
mod reference;
mod environment;
mod include;
mod key_errors;
mod failure;
mod secrets;
mod shown;
mod arguments;
mod names;

// the sections of a file
mod access_log;
mod acme;
mod admin;
mod answer;
mod compression;
mod connect_method;
mod error_pages;
mod files;
mod fleet;
mod listeners;
mod peers;
pub(crate) mod mcp;
mod policies;
mod response_rules;
mod rewrite;
mod route_conditions;
mod routes;
mod server;
mod shares;
mod telemetry;
mod tls;
mod upstreams;

// the resolved config, from a file or built in code
mod settings;
mod listener_settings;
mod code;
mod file;
pub(crate) mod forward;
pub(crate) mod own_listeners;
pub(crate) mod references;
pub(crate) mod usage;
#[cfg(test)]
mod tests;

pub(crate) use admin::{AdminAuthentication, AdminRole};
use arguments::{LISTED_HINT, is_listed};
pub use arguments::{parse_headers, parse_listeners};
pub use failure::{Failure, Finding, Severity};
pub use file::ConfigSource;
pub(crate) use fleet::SharedConfig;
pub(crate) use listener_settings::{
    Http2, HttpsRedirect, ListenerConfig, ListenerTlsConfig, TcpListenerConfig,
};
pub(crate) use peers::PeerConfig;
pub use reference::reference;
pub(crate) use settings::{
    AccessLogConfig, Action, AdminConfig, FilesConfig, FixedAnswer, Policies, Upstreams,
};
pub use settings::{Config, Route};
pub(crate) use telemetry::{CollectorConfig, OtlpProtocol, TelemetryConfig};
use values::Span;
pub use whole_file::schema;
