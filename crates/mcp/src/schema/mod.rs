//! Types for the contents of messages, named as in the schema of the protocol.
//!
//! Each type supports all revisions. If a revision does not define a member, messages of that revision
//! omit the member. The types do not contain the members that the modern era adds to each result
//! (`resultType`, `ttlMs`, `cacheScope`): see [`ResultWriter`](crate::modern::ResultWriter).

// common parts
pub mod methods;
mod meta;
mod implementation;
mod content;

// offers of servers
mod tools;
mod tool_calls;
mod resources;
mod prompts;
mod completion;

// requests of servers to clients
mod elicitation;
mod sampling;
mod input;

// messages during a request
mod logging;
mod notifications;
mod tasks;

// capabilities and handshake
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
