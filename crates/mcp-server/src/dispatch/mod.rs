//! From a message to its answer. Bindings frame and deliver, and know no meanings; everything that a message
//! means is here.

// what comes of a message
mod telling;
mod exchange;
mod outgoing;
mod reply;

// the backend of handlers in this process
mod local;

// what both eras do the same way
mod answering;
mod methods;

// calls that go on when they are answered
mod tasks;

// the eras
pub(crate) mod legacy;
pub(crate) mod modern;

pub(crate) use answering::Answering;
pub use exchange::Exchange;
pub(crate) use local::LocalBackend;
pub(crate) use outgoing::Outgoing;
pub use outgoing::{Said, Status};
pub use reply::Reply;
pub use tasks::require_tasks;
pub(crate) use telling::{Farewell, change_notification};
