//! Tokens: how clients get them, and what they do when servers do not deserve them.

mod world;
mod logins;
mod tokens;
mod rotation;
mod machines;
mod hostile;
mod loopback;
