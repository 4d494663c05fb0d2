//! The registry of the tools, resources and prompts of a server. The registry can change while the server
//! runs.

mod list;
mod resources;
mod uri_template;
mod tools;
mod prompts;
mod texts;
mod hidden;

use std::collections::HashMap;
use std::sync::Arc;

use crate::handlers::Layer;

pub(crate) use hidden::HiddenItems;
pub use list::RegistrationError;
pub(crate) use list::{List, Named};
pub use prompts::CompletionInput;
pub(crate) use prompts::{CompletionHandler, PromptEntry};
pub use resources::ResourceAnswer;
pub(crate) use resources::{ResourceEntry, TemplateEntry};
pub use texts::{TextArguments, UriVariables};
pub(crate) use tools::ToolEntry;
pub(crate) use uri_template::UriTemplate;
pub use uri_template::{InvalidUriTemplate, UriParameters};

/// A snapshot of all items of a server.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) tools: List<ToolEntry>,
    /// The scopes that callers of a tool need, by the name of the tool. A tool without required scopes is
    /// not in the map.
    pub(crate) tool_scopes: HashMap<String, Vec<String>>,
    pub(crate) resources: List<ResourceEntry>,
    pub(crate) templates: List<TemplateEntry>,
    pub(crate) prompts: List<PromptEntry>,
    pub(crate) completions: Vec<Arc<CompletionHandler>>,
    /// The layers around all handlers. The last layer gets each call first.
    pub(crate) layers: Vec<Arc<dyn Layer>>,
    /// The items that clients cannot see. The other lists do not contain these items.
    pub(crate) hidden: HiddenItems,
}
