//! Connections of HTTP/2 (RFC 9113), by the `h2` library: frames, HPACK, windows and the states of streams
//! are its business.
//!
//! ```text
//! transport ◀─▶ wire: counts frames ◀─▶ h2 ──▶ request_head ──▶ handler ──▶ response_head ──▶ h2
//!                                        │      incoming ──▶ content ──▶ sending            ▲
//!                                        └──────────────── stream, one future for each ─────┘
//! ```
//! Handlers, layers and routes see only the [`Version`](crate::Version) in the head; requests and responses
//! are the same as over HTTP/1.1. The task of the connection polls all its streams, and they end with it.

// limits
mod limits;

// bytes
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
