//! Connections of HTTP/2.

mod frames;
mod library;

mod order;
mod refusals;
mod messages;
mod tunnels;
mod floods;
mod timing;
