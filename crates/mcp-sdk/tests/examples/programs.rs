//! The examples themselves.

#[path = "../../examples/axum_mounted.rs"]
pub(crate) mod axum_mounted;
#[path = "../../examples/booking.rs"]
pub(crate) mod booking;
#[path = "../../examples/calculator.rs"]
pub(crate) mod calculator;
#[path = "../../examples/notes.rs"]
pub(crate) mod notes;
