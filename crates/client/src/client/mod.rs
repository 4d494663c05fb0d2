//! The high-level client, which takes URLs and returns responses. Relays use the low-level interface
//! instead.
//!
//! Any number of threads can share one client. A lock protects the idle connections, and the client holds
//! the lock only to take or return a connection. The client does not follow redirects, decode content
//! codings or cache responses.

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
