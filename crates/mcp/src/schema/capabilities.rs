//! Capabilities of clients and servers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonObject, TASKS_EXTENSION};

/// Capabilities of a client. If a capability is absent, the client does not support it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ClientCapabilities {
    /// Elicitation: the client can ask its user a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// Sampling: the client can let its language model generate text for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<JsonObject>,
    /// Roots: the client can list its working directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<JsonObject>,
    /// Extensions and their settings (MCP revision 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<JsonObject>,
    /// Capabilities that no revision defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<JsonObject>,
}

/// The kinds of elicitation that a client supports. If `form` and `url` are both absent, the client
/// supports forms.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ElicitationCapability {
    /// The client can show a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<JsonObject>,
    /// The client can open a web page for its user (since MCP revision 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<JsonObject>,
}

/// Capabilities of a server. If a capability is absent, the server does not support it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ServerCapabilities {
    /// The server has tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// The server has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// The server has prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// The server suggests values for arguments of prompts and resource templates (since MCP revision
    /// 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<JsonObject>,
    /// The server sends log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<JsonObject>,
    /// The server can run requests as tasks (MCP revision 2025-11-25). The member `requests` lists the
    /// methods that can run as tasks. The members `list` and `cancel` declare that the server supports
    /// `tasks/list` and `tasks/cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<JsonObject>,
    /// Extensions and their settings (MCP revision 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<JsonObject>,
    /// Capabilities that no revision defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<JsonObject>,
}

/// The capability to provide a list of tools or prompts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    /// `true` if the server notifies clients when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
}

/// The capability to provide resources.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    /// `true` if clients can subscribe to changes of a single resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// `true` if the server notifies clients when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
}

impl ServerCapabilities {
    /// Returns `true` if clients may request tool calls as tasks (MCP revision 2025-11-25).
    pub fn has_calls_as_tasks(&self) -> bool {
        let requests = self.tasks.as_ref().and_then(|tasks| tasks.get("requests"));
        requests.and_then(|requests| requests.pointer("/tools/call")).is_some_and(Value::is_object)
    }

    /// Returns `true` if the server can answer tool calls with tasks (MCP revision 2026-07-28).
    pub fn has_tasks_extension(&self) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(TASKS_EXTENSION))
    }
}

impl ClientCapabilities {
    /// Returns `true` if the client can show forms to its user.
    pub fn has_form_elicitation(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
    }

    /// Returns `true` if the client can open a web page for its user.
    pub fn has_url_elicitation(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_some())
    }

    /// Returns `true` if the client accepts a task in place of a result.
    pub fn has_tasks(&self) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(TASKS_EXTENSION))
    }

    /// Adds support for elicitation with forms.
    #[must_use]
    pub fn with_elicitation(mut self) -> Self {
        self.elicitation.get_or_insert_default().form = Some(JsonObject::new());
        self
    }

    /// Adds support for elicitation with web pages.
    #[must_use]
    pub fn with_url_elicitation(mut self) -> Self {
        self.elicitation.get_or_insert_default().url = Some(JsonObject::new());
        self
    }

    /// Adds support for sampling.
    #[must_use]
    pub fn with_sampling(mut self) -> Self {
        self.sampling = Some(JsonObject::new());
        self
    }

    /// Adds support for roots.
    #[must_use]
    pub fn with_roots(mut self) -> Self {
        self.roots = Some(JsonObject::new());
        self
    }

    /// Adds support for tasks.
    #[must_use]
    pub fn with_tasks(mut self) -> Self {
        let settings = JsonObject::new().into();
        self.extensions.get_or_insert_default().insert(TASKS_EXTENSION.into(), settings);
        self
    }
}
