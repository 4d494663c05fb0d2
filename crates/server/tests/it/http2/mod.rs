//! Connections of HTTP/2.

mod frames;
pub(crate) mod library;

mod order;
mod refusals;
mod messages;
mod tunnels;
mod floods;
mod timing;
