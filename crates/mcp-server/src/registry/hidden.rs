//! Items that clients cannot see, unless their session shows them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{List, Named, PromptEntry, Registry, ResourceEntry, TemplateEntry, ToolEntry};
use crate::session::{ItemName, Visibility};

/// The hidden items of a server.
#[derive(Clone, Default)]
pub(crate) struct HiddenItems {
    /// The names of hidden items, also of items that the server does not have yet.
    names: BTreeSet<ItemName>,
    pub(crate) tools: List<ToolEntry>,
    pub(crate) resources: List<ResourceEntry>,
    pub(crate) templates: List<TemplateEntry>,
    pub(crate) prompts: List<PromptEntry>,
}

impl Registry {
    /// Adds a tool, or replaces the tool with the same name.
    pub(crate) fn insert_tool(&mut self, tool: Arc<ToolEntry>) {
        let is_hidden = self.hidden.names.contains(&ItemName::Tool(tool.key().to_owned()));
        if is_hidden { self.hidden.tools.insert(tool) } else { self.tools.insert(tool) }
    }

    /// Adds a prompt, or replaces the prompt with the same name.
    pub(crate) fn insert_prompt(&mut self, prompt: Arc<PromptEntry>) {
        let is_hidden = self.hidden.names.contains(&ItemName::Prompt(prompt.key().to_owned()));
        if is_hidden { self.hidden.prompts.insert(prompt) } else { self.prompts.insert(prompt) }
    }

    /// Adds a resource, or replaces the resource with the same URI.
    pub(crate) fn insert_resource(&mut self, resource: Arc<ResourceEntry>) {
        let is_hidden = self.hidden.names.contains(&ItemName::Resource(resource.key().to_owned()));
        if is_hidden { self.hidden.resources.insert(resource) } else { self.resources.insert(resource) }
    }

    /// Adds a resource template, or replaces the template with the same text.
    pub(crate) fn insert_template(&mut self, template: Arc<TemplateEntry>) {
        let is_hidden = self.hidden.names.contains(&ItemName::Resource(template.key().to_owned()));
        if is_hidden { self.hidden.templates.insert(template) } else { self.templates.insert(template) }
    }

    /// Hides an item of the server, or an item that the server will have.
    pub(crate) fn hide(&mut self, name: &ItemName) {
        self.hidden.names.insert(name.clone());
        self.set_visible(name, false);
    }

    /// Returns a copy of this registry with the visibility of a session.
    pub(crate) fn view(&self, visibility: &Visibility) -> Self {
        let mut view = self.clone();
        for (name, is_visible) in &visibility.overrides {
            view.set_visible(name, *is_visible);
        }
        view
    }

    /// Moves an item between the visible and the hidden items.
    fn set_visible(&mut self, name: &ItemName, is_visible: bool) {
        let hidden = &mut self.hidden;
        match name {
            ItemName::Tool(name) => shift(&mut self.tools, &mut hidden.tools, name, is_visible),
            ItemName::Prompt(name) => shift(&mut self.prompts, &mut hidden.prompts, name, is_visible),
            ItemName::Resource(uri) => {
                shift(&mut self.resources, &mut hidden.resources, uri, is_visible);
                shift(&mut self.templates, &mut hidden.templates, uri, is_visible);
            }
        }
    }
}

fn shift<T: Named>(visible: &mut List<T>, hidden: &mut List<T>, name: &str, is_visible: bool) {
    let (from, to) = if is_visible { (hidden, visible) } else { (visible, hidden) };
    if let Some(entry) = from.find(name).cloned() {
        from.remove(name);
        to.insert(entry);
    }
}
