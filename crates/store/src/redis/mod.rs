//! The store in Redis or Valkey.

mod backend;
mod connector;
mod failures;
mod inspection;
mod link;
mod meter;
mod node;
mod operations;
mod reply_limit;
mod scripts;
mod settings;
mod subscriber;
mod url;

pub(crate) use backend::RedisStore;
pub use connector::StoreConnectError;
pub use inspection::{StoreInspection, inspect};
pub use settings::{StoreConfig, StoreCredentials, StoreTls};
pub use url::{StoreLayout, StoreUrl, StoreUrlError};
