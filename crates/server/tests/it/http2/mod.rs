//! Connections of HTTP/2.

mod frames;
mod library;

mod refusals;
mod messages;
mod tunnels;
mod floods;
mod timing;
