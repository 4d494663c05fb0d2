//! Handlers: the functions behind tools, prompts and resources.

mod answer;
mod context;
mod error;
mod function;
mod layer;
mod typed;

pub use answer::{IntoAnswer, Structured};
pub(crate) use context::ClientSide;
pub use context::{Call, Context};
pub use error::{BoxError, HandlerError};
pub(crate) use function::AsyncInput;
pub use function::{Handler, Later, NoInput, Outcome};
pub use layer::{Layer, Next, ServerResult};
pub(crate) use layer::{Layered, begin, poll_caught, too_late};
pub(crate) use typed::Typed;
