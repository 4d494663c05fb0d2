//! The examples themselves.

#[path = "../../examples/booking.rs"]
pub(crate) mod booking;
#[path = "../../examples/calculator.rs"]
pub(crate) mod calculator;
#[path = "../../examples/mcp_in_axum.rs"]
pub(crate) mod mcp_in_axum;
#[path = "../../examples/notes.rs"]
pub(crate) mod notes;
#[path = "../../examples/words.rs"]
pub(crate) mod words;
