//! The examples themselves.

#[path = "../../examples/booking.rs"]
pub(crate) mod booking;
#[path = "../../examples/calculator.rs"]
pub(crate) mod calculator;
#[path = "../../examples/notes.rs"]
pub(crate) mod notes;
