//! Runs a gateway as a service with a config file, reloads, graceful shutdown, status and metrics.
//!
//! [`Daemon`] is the service that `thruway serve` runs. A program can also embed the service, with a config
//! file or with a [`Config`] that the program builds:
//!
//! ```
//! use thruway_daemon::{Config, Daemon, Route};
//! use thruway_gateway::{PathMatch, RouteMatch};
//! use thruway_server::Response;
//!
//! # fn main() -> Result<(), thruway_daemon::Failure> {
//! let everything = RouteMatch::at(PathMatch::Prefix("/".to_owned()));
//! let config = Config::default()
//!     .listen("127.0.0.1:0")?
//!     .route(Route::handler(everything, || Response::text("hello\n")));
//! let daemon = Daemon::from_config(config)?;
//! println!("listening on {}", daemon.listeners()[0].address);
//! daemon.drain(); // A service calls `daemon.run()` instead, which runs until SIGTERM.
//! daemon.join();
//! # Ok(())
//! # }
//! ```

// the config
mod config;

// the running service
mod routes;
mod shared_health;
mod background;
mod replicas;
mod live_store;
mod shared_limits;
mod mcp;
mod acme;
mod access_log;
mod program_log;
mod telemetry;
mod streams;
mod tls;
mod config_document;
mod admin_access;
mod running_state;
mod changes;
mod reload;
mod admin;
mod daemon;

// checks of a config, without running the config
mod explain;
mod fleet;
mod check;

// the overview of another running service
mod top;

pub use check::{Checked, check, explain};
pub use config::{
    Config, ConfigSource, Failure, Finding, Route, Severity, parse_headers, parse_listeners, reference,
    schema,
};
pub use daemon::{Daemon, DaemonHandle, Ended, RunningListener, Signals};
pub use mcp::child_command;
pub use program_log::{event_as_json, logs_json, message_as_json};
pub use top::{TopAccess, TopOptions, fleet_status, top};
