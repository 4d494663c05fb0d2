//! The error of all commands.

pub(crate) use thruway_daemon::{Failure, parse_listeners};
