//! The Model Context Protocol, every revision from 2024-11-05 to 2026-07-28.
//!
//! Messages come in as octets and go out as octets. Nothing here does I/O, knows the time, or decides what a tool does.
#![no_std]

extern crate alloc;

// what messages say
pub mod schema;
