//! What messages say: the types of the schema, under its names.
//!
//! One type serves all revisions; what a revision does not have is absent. What the modern era writes around
//! a result (`resultType`, `ttlMs`, `cacheScope`) is not part of the types: see
//! [`ResultWriter`](crate::modern::ResultWriter).

// what everything is made of
pub mod methods;
mod meta;
mod implementation;
mod content;

// what servers offer
mod tools;
mod tool_calls;
mod resources;
mod prompts;
mod completion;

// what servers ask
mod elicitation;
mod sampling;
mod input;

// what is said along the way
mod logging;
mod notifications;
mod tasks;

// what either side can do
mod capabilities;
mod handshake;

#[cfg(test)]
mod tests;

pub use crate::json_rpc::RequestId;
pub use capabilities::*;
pub use completion::*;
pub(crate) use content::content_blocks;
pub use content::*;
pub use elicitation::*;
pub use handshake::*;
pub use implementation::*;
pub use input::*;
pub use logging::*;
pub use meta::*;
pub use notifications::*;
pub use prompts::*;
pub use resources::*;
pub use sampling::*;
pub use tasks::*;
pub use tool_calls::*;
pub use tools::*;
