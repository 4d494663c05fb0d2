//! The extractor [`Multipart`]: forms with files (`multipart/form-data`, RFC 7578).
//!
//! ```
//! use thruway_server::Router;
//! use thruway_server::extractors::multipart::{Multipart, MultipartError};
//!
//! async fn upload(mut form: Multipart) -> Result<String, MultipartError> {
//!     let mut received = String::new();
//!     while let Some(mut field) = form.next_field().await? {
//!         let name = field.name().unwrap_or("?").to_owned();
//!         let mut bytes = 0;
//!         while let Some(piece) = field.chunk().await? {
//!             bytes += piece.len();
//!         }
//!         received += &format!("{name}: {bytes} bytes\n");
//!     }
//!     Ok(received)
//! }
//!
//! let router = Router::new().post("/upload", upload);
//! # let _ = router;
//! ```
//!
//! The crate `multer` parses the form (docs/decisions/0099). This module limits the data that it can buffer.

mod error;
mod feed;
mod form;

pub use error::MultipartError;
pub use form::{Field, Multipart};
