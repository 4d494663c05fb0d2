//! A client for those who want an answer and no relay: URLs in, responses out.
//!
//! It is one value for a whole program, whichever threads its tasks run on: it keeps the idle connections
//! behind a lock, which is held for no more than taking one. Redirects are not followed, content codings not
//! undone, nothing is kept.
//!
//! ```no_run
//! # async fn example() -> Result<(), thruway_client::ClientError> {
//! use thruway_client::Client;
//!
//! let client = Client::new();
//! let keys = client.get("http://127.0.0.1:8080/keys").send().await?.collect(1 << 20).await?;
//! let answer = client
//!     .post("http://127.0.0.1:8080/mcp")
//!     .field("Content-Type", "application/json")
//!     .content(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
//!     .send()
//!     .await?;
//! # Ok(())
//! # }
//! ```

mod error;

// where requests go
mod destination;
mod idle;
mod http_client;

// the exchange
mod drive;
mod response;
mod events;
mod request;

// what is kept
mod document;

pub use destination::Destination;
pub use document::{DocumentConfig, DocumentUrl, FetchedDocument, InvalidDocumentUrl, KeptDocument};
pub use error::ClientError;
pub use events::{Event, Events};
pub use http_client::{Client, ClientConfig};
pub use request::Request;
pub use response::Response;
