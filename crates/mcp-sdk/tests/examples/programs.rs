//! The examples themselves.

#[path = "../../examples/asking_a_server.rs"]
pub(crate) mod asking_a_server;
#[path = "../../examples/booking.rs"]
pub(crate) mod booking;
#[path = "../../examples/bridge.rs"]
pub(crate) mod bridge;
#[path = "../../examples/calculator.rs"]
pub(crate) mod calculator;
#[path = "../../examples/library.rs"]
pub(crate) mod library;
#[path = "../../examples/mcp_in_axum.rs"]
pub(crate) mod mcp_in_axum;
#[path = "../../examples/guarded.rs"]
pub(crate) mod guarded;
#[path = "../../examples/layers.rs"]
pub(crate) mod layers;
#[path = "../../examples/notes.rs"]
pub(crate) mod notes;
#[path = "../../examples/report.rs"]
pub(crate) mod report;
#[path = "../../examples/signed_in.rs"]
pub(crate) mod signed_in;
#[path = "../../examples/words.rs"]
pub(crate) mod words;
