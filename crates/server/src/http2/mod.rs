//! Connections of HTTP/2 (RFC 9113), by the `h2` library: frames, HPACK, windows and the states of streams
//! are its business.
//!
//! ```text
//! transport ◀─▶ wire: counts frames ◀─▶ h2 ──▶ request_head ──▶ handler ──▶ response_head ──▶ h2
//!                                        │      incoming ──▶ content ──▶ sending            ▲
//!                                        └──────────────── stream, one future for each ─────┘
//! ```
//! Handlers, layers and routes learn nothing of it but the [`Version`](crate::Version) in the head: what they
//! get and give is what they get and give over HTTP/1.1. All streams of a connection are polled in its task,
//! and end with it.

// what a connection takes on
mod limits;

// octets
mod frames;
mod oddities;
mod wire;

// requests in
mod accepting;
mod request_head;
mod incoming;

// answers out
mod response_head;
mod sending;
mod tunnel;
mod stream;

// all of it
mod connection;
mod leaving;

pub use limits::Http2Limits;

pub(crate) use connection::drive;
pub(crate) use wire::PREFACE;
