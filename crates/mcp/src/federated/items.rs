//! The items of lists: tools, resources, resource templates and prompts.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::members::one_line;
use crate::schema::methods;

/// The kinds of lists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListKind {
    /// The tools, by name.
    Tools,
    /// The resources, by URI.
    Resources,
    /// The resource templates, by URI template.
    ResourceTemplates,
    /// The prompts, by name.
    Prompts,
}

/// An item of a member's list. Keeps the JSON text of the member, on one line.
#[derive(Clone, Debug)]
pub struct ListItem {
    json: Box<RawValue>,
    key: Box<str>,
    /// The position of the key in the JSON text, with its quotation marks.
    key_range: Range<usize>,
}

/// The error for an item that is not a JSON object, or that has no key, several keys, or a key that is not a
/// string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemInvalid;

impl ListKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::ResourceTemplates, Self::Prompts];

    /// Returns the kind of the list that requests with this method return.
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// Returns the method that requests the list.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => methods::TOOLS_LIST,
            Self::Resources => methods::RESOURCES_LIST,
            Self::ResourceTemplates => methods::RESOURCES_TEMPLATES_LIST,
            Self::Prompts => methods::PROMPTS_LIST,
        }
    }

    /// Returns the member of the result that contains the items.
    pub const fn result_member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the member of an item that identifies the item in the list: `name`, `uri` or `uriTemplate`.
    pub const fn key_member(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::ResourceTemplates => "uriTemplate",
        }
    }

    /// `true` if the key of an item is a name, which the endpoint may change. `false` if the key is a URI.
    pub const fn has_names(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }
}
