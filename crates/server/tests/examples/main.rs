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

#[test]
fn each_example_has_a_test() {
    let programs = include_str!("programs.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if entry.path().is_dir() { format!("{name}/main.rs") } else { name };
        assert!(programs.contains(&format!("\"../../examples/{path}\"")), "{path} is not in `programs.rs`");
    }
}
