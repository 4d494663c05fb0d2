//! The examples, driven as their users drive them: each on a port of its own, by clients that are not ours.
//!
//! Nothing here looks inside of them: a handler's unit tests are no part of an example.

#[expect(dead_code, reason = "`main` is called by those who run an example")]
mod programs;
mod site;

mod axum_mounted;
mod hello;
mod html_templates;
mod jwt_route;
mod multipart_upload;
mod rest_json;
mod server_sent_events;
mod static_site;
mod websocket;
