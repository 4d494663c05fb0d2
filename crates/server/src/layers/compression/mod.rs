//! Responses are compressed on their way out: gzip, brotli and zstd, by `Accept-Encoding` (RFC 9110 §12.5.3).

// settings
mod config;

// which responses
mod media_type;
mod decide;

// encoding
mod encoder;
mod pool;
mod source;
mod content;

// around handlers
mod layer;

pub use config::{Compression, ListenerCompression};
pub use layer::ByListener;
pub use media_type::InvalidMediaType;
