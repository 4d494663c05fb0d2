//! WebSocket connections (RFC 6455). Needs the feature `websocket`.
//!
//! ```
//! use thruway_server::extractors::websocket::{Message, WebSocket, WebSocketUpgrade};
//! use thruway_server::{Response, Router};
//!
//! fn echo(upgrade: WebSocketUpgrade) -> Response {
//!     upgrade.on_upgrade(async |mut socket: WebSocket| {
//!         while let Some(Ok(message)) = socket.recv().await {
//!             let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
//!             if is_data && socket.send(message).await.is_err() {
//!                 return;
//!             }
//!         }
//!     })
//! }
//!
//! let router = Router::new().get("/echo", echo);
//! # let _ = router;
//! ```
//!
//! The crate `tungstenite` implements the protocol. Its types are not part of this API. Compression
//! (`permessage-deflate`) is not supported.

mod message;
mod socket;
mod upgrade;

pub use message::{CloseFrame, Message, Utf8Bytes, close_code};
pub use socket::{WebSocket, WebSocketError};
pub use upgrade::{WebSocketRejection, WebSocketUpgrade};
