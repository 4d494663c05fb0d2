//! Handlers: the functions behind tools, prompts and resources.

mod answer;
mod call;
mod context;
mod error;
mod form;
mod function;
mod layer;
mod typed;

pub use answer::{IntoAnswer, Structured};
pub use call::Call;
pub(crate) use call::ClientSide;
pub use context::Context;
pub use error::{BoxError, HandlerError};
pub use form::{ElicitForm, Elicited, FormChoice, FormField};
pub(crate) use function::AsyncInput;
pub use function::{Handler, Later, NoInput, Outcome};
pub use layer::{Layer, Next, ServerResult};
pub(crate) use layer::{Layered, begin, poll_caught, too_late};
pub(crate) use typed::Typed;
