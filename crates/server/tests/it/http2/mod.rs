//! Tests of HTTP/2 connections.

mod frames;
pub(crate) mod library;

mod order;
mod refusals;
mod messages;
mod tunnels;
mod floods;
mod timing;
