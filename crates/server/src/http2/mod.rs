//! HTTP/2 connections (RFC 9113), with the library `h2`. The library handles frames, HPACK, flow control and
//! stream states.
//!
//! ```text
//! transport ◀─▶ wire: counts frames ◀─▶ h2 ──▶ request_head ──▶ handler ──▶ response_head ──▶ h2
//!                                        │      incoming ──▶ content ──▶ sending            ▲
//!                                        └──────────────── stream, one future for each ─────┘
//! ```
//!
//! For handlers, layers and routes, requests over HTTP/2 and HTTP/1.1 differ only in the
//! [`Version`](crate::Version) of the request head. The task of a connection polls all streams of the
//! connection. When the connection ends, its streams end too.

// limits
mod limits;

// bytes and frames
mod frames;
mod flood_guard;
mod wire;

// requests
mod accepting;
mod request_head;
mod incoming;

// responses
mod response_head;
mod sending;
mod tunnel;
mod stream;

// connections and streams
mod connection;
mod leaving;

pub(crate) use connection::drive;
pub(crate) use wire::PREFACE;
