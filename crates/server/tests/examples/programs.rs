//! The examples themselves.

#[path = "../../examples/hello.rs"]
pub(crate) mod hello;
#[path = "../../examples/rest_json.rs"]
pub(crate) mod rest_json;
#[path = "../../examples/static_site.rs"]
pub(crate) mod static_site;
