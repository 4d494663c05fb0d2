//! From a message to its answer. Bindings frame and deliver, and know no meanings; everything that a message means is
//! here.

// what comes of a message
mod telling;
mod exchange;
mod reply;

// what both eras do the same way
mod answering;
mod methods;

// calls that go on when they are answered
mod tasks;

// the eras
pub(crate) mod legacy;
pub(crate) mod modern;

pub(crate) use answering::{Answering, poll_caught, too_late};
pub(crate) use exchange::{Exchange, Outgoing, Said};
pub(crate) use reply::{Reply, Status};
pub(crate) use tasks::require_tasks;
pub(crate) use telling::Farewell;
