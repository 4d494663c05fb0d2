//! What only real sockets show: clients that are slow, that do not read, that break rules while they send,
//! that vanish.
//!
//! No test waits for a time to pass: each waits for what it is about, and fails when that takes longer than
//! any machine needs. What is used up by a whole process is tested with the command.

mod site;

mod drained;
mod piped;
mod proxied;
mod refused;
mod slow;
mod tls;
mod tunnels;
mod vanished;
mod versions;
