//! The kinds of items that attributes create.

use syn::Path;

/// An item of an MCP server. Each kind has its own attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Tool,
    Prompt,
    Resource,
}

impl Item {
    /// Returns the item that an attribute with this path creates.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = &path.segments.last()?.ident;
        [Self::Tool, Self::Prompt, Self::Resource].into_iter().find(|item| name == item.name())
    }

    /// Returns the name of the attribute.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }
}
