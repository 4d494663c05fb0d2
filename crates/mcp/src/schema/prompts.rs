//! Prompts.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{ContentBlock, Icon, InputResponses, MetaObject, Role};

/// A prompt.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Prompt {
    /// The unique name of the prompt.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Icons for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// An argument of a prompt. The value of such an argument is a string.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PromptArgument {
    /// The name that programs use for the argument.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `true` if the argument is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// A page of the list of prompts.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPromptsResult {
    /// The prompts of the page.
    pub prompts: Vec<Prompt>,
    /// The cursor of the next page, absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Parameters of a request for a prompt.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptRequestParams {
    /// The name of the prompt.
    pub name: String,
    /// The arguments of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
    /// The answers to the server's elicitation, sampling and roots requests in an earlier round (MCP revision
    /// 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that the server returned in an earlier round (MCP revision 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A prompt with its arguments filled in.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct GetPromptResult {
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages of a conversation, in order.
    pub messages: Vec<PromptMessage>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A message of a conversation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromptMessage {
    /// The author of the message.
    pub role: Role,
    /// The content of the message.
    pub content: ContentBlock,
}

impl Prompt {
    /// Returns a prompt without arguments. If you add no arguments, the server derives the arguments from the
    /// prompt's handler.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the display name.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn with_argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }
}

impl PromptArgument {
    /// Returns an optional argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets whether the argument is required.
    #[must_use]
    pub const fn with_required(mut self, is_required: bool) -> Self {
        self.required = Some(is_required);
        self
    }
}

impl PromptMessage {
    /// Returns a message of the user.
    pub const fn user(content: ContentBlock) -> Self {
        Self { role: Role::User, content }
    }

    /// Returns a message of the model.
    pub const fn assistant(content: ContentBlock) -> Self {
        Self { role: Role::Assistant, content }
    }
}
