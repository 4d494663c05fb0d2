//! A high-level client: URLs in, responses out. It is not a relay.
//!
//! One client serves a whole program, on any number of threads. A lock protects the idle connections; the
//! client holds it only to take or return a connection. The client does not follow redirects, decode content
//! codings or cache responses.
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

// destinations of requests
mod destination;
mod idle;
mod http_client;

// the exchange
mod drive;
mod response;
mod events;
mod request;

// cached documents
mod document;

pub use destination::Destination;
pub use document::{DocumentConfig, DocumentUrl, FetchedDocument, InvalidDocumentUrl, KeptDocument};
pub use error::ClientError;
pub use events::{Event, Events};
pub use http_client::{Client, ClientConfig};
pub use request::Request;
pub use response::Response;
