//! The source files of the examples.

#[path = "../../examples/axum_mounted.rs"]
pub(crate) mod axum_mounted;
#[path = "../../../../examples/axum-service/thruway.rs"]
pub(crate) mod axum_service;
#[path = "../../../../examples/axum-service/axum.rs"]
pub(crate) mod axum_service_original;
#[path = "../../examples/hello.rs"]
pub(crate) mod hello;
#[path = "../../examples/html_templates/main.rs"]
pub(crate) mod html_templates;
#[path = "../../examples/jwt_route.rs"]
pub(crate) mod jwt_route;
#[path = "../../examples/multipart_upload.rs"]
pub(crate) mod multipart_upload;
#[path = "../../examples/rest_json.rs"]
pub(crate) mod rest_json;
#[path = "../../examples/server_sent_events/main.rs"]
pub(crate) mod server_sent_events;
#[path = "../../examples/sign_in.rs"]
pub(crate) mod sign_in;
#[path = "../../examples/static_site.rs"]
pub(crate) mod static_site;
#[path = "../../examples/websocket/main.rs"]
pub(crate) mod websocket;
