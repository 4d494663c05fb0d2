//! The server program for tests with a real store.

use std::env;
use std::process::Command;

/// Returns a command that starts a server of Redis: `redis-server`, or the program that the environment variable
/// `REDIS_SERVER` names, such as `valkey-server`.
pub fn redis_server() -> Command {
    Command::new(env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()))
}
