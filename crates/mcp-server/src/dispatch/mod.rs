//! The path from a message to its answer. Transports only frame and deliver messages; this module interprets
//! them.

// results of a message
mod subscription_stream;
mod exchange;
mod outgoing;
mod reply;

// the backend of handlers in this process
mod local;

// answers of both eras
mod answering;
mod call_method;

// calls that continue after their answer
mod tasks;

// the eras
pub(crate) mod legacy;
pub(crate) mod modern;

pub(crate) use answering::Answering;
pub use exchange::Exchange;
pub(crate) use local::LocalBackend;
pub(crate) use outgoing::Outgoing;
pub use outgoing::{InterimMessage, Status};
pub use reply::Reply;
pub(crate) use subscription_stream::{CloseMessage, change_notification};
pub use tasks::require_tasks;
