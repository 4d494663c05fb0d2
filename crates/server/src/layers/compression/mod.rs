//! Compression of responses with gzip, brotli and zstd, as negotiated by `Accept-Encoding` (RFC 9110
//! §12.5.3).

// settings
mod config;

// decisions
mod media_type;
mod decide;

// encoders
mod encoder;
mod pool;
mod content;

// layers
mod layer;

pub use config::{Compression, ListenerCompression};
pub use layer::ByListener;
pub use media_type::{InvalidMediaType, MediaType};
