//! Runs the examples on free ports, with HTTP clients from other projects.
//!
//! The tests use only the network: examples contain no unit tests of handlers.

#[expect(dead_code, reason = "only users of an example call `main`")]
mod programs;
mod site;

mod axum_mounted;
mod axum_service;
mod hello;
mod html_templates;
mod jwt_route;
mod multipart_upload;
mod rest_json;
mod server_sent_events;
mod sign_in;
mod static_site;
mod websocket;
