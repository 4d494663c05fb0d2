//! Tokens: how clients obtain them, and how clients handle untrustworthy servers.

mod world;
mod logins;
mod tokens;
mod rotation;
mod machines;
mod hostile;
mod loopback;
