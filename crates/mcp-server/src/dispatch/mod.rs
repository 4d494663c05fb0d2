//! Produces the answer to each received message. The transports only read and write messages. This module
//! interprets the messages.

// answers, and the messages before an answer
mod subscription_stream;
mod exchange;
mod outgoing;
mod reply;

// the backend that calls the handlers of this process
mod local;

// answers in both eras
mod answering;
mod call_method;

// calls that become tasks
mod tasks;

// the two eras
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
