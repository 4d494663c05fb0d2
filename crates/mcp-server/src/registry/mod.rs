//! What a server offers: lists that may change while it runs.

mod list;
mod resources;
mod uri_template;
mod tools;
mod prompts;

use std::collections::HashMap;
use std::sync::Arc;

use crate::handlers::Layer;

pub use list::RegistrationError;
pub(crate) use list::{List, Named};
pub use prompts::CompletionInput;
pub(crate) use prompts::{CompletionHandler, PromptEntry};
pub use resources::ResourceAnswer;
pub(crate) use resources::{ResourceEntry, TemplateEntry};
pub(crate) use tools::ToolEntry;
pub use uri_template::{InvalidUriTemplate, UriParameters};

/// Everything a server offers at one moment.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) tools: List<ToolEntry>,
    /// What callers must have been given before they may call some tools.
    pub(crate) tool_scopes: HashMap<String, Vec<String>>,
    pub(crate) resources: List<ResourceEntry>,
    pub(crate) templates: List<TemplateEntry>,
    pub(crate) prompts: List<PromptEntry>,
    pub(crate) completions: Vec<Arc<CompletionHandler>>,
    /// What is around all handlers, the outermost last.
    pub(crate) layers: Vec<Arc<dyn Layer>>,
}
