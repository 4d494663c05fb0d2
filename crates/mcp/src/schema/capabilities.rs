//! What either side can do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonObject, TASKS_EXTENSION};

/// What a client can do. What is absent it cannot.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ClientCapabilities {
    /// Ask its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// Ask its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<JsonObject>,
    /// Tell which directories it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<JsonObject>,
    /// Extensions, and their settings (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<JsonObject>,
    /// What no revision defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<JsonObject>,
}

/// How a client can ask its user. With neither, by a form.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ElicitationCapability {
    /// By a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<JsonObject>,
    /// By sending it to a page (from 2025-11-25 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<JsonObject>,
}

/// What a server can do. What is absent it cannot.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ServerCapabilities {
    /// It has tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// It has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// It has prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// It completes arguments (from 2025-03-26 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<JsonObject>,
    /// It logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<JsonObject>,
    /// It makes tasks of requests: `requests` says of which, `list` and `cancel` what else can be done
    /// (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<JsonObject>,
    /// Extensions, and their settings (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<JsonObject>,
    /// What no revision defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<JsonObject>,
}

/// A list that a server has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    /// It tells when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
}

/// The resources that a server has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    /// It tells when one of them changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// It tells when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
}

impl ServerCapabilities {
    /// Whether clients may have tasks made of their calls of tools (2025-11-25).
    pub fn has_calls_as_tasks(&self) -> bool {
        let requests = self.tasks.as_ref().and_then(|tasks| tasks.get("requests"));
        requests.and_then(|requests| requests.pointer("/tools/call")).is_some_and(Value::is_object)
    }
}

impl ClientCapabilities {
    /// Whether the client can ask its user by a form.
    pub fn has_form_elicitation(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
    }

    /// Whether the client can send its user to a page.
    pub fn has_url_elicitation(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_some())
    }

    /// Whether the client takes a task for an answer.
    pub fn has_tasks(&self) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(TASKS_EXTENSION))
    }

    /// The same, able to ask its user by a form.
    #[must_use]
    pub fn with_elicitation(mut self) -> Self {
        self.elicitation.get_or_insert_default().form = Some(JsonObject::new());
        self
    }

    /// The same, able to send its user to a page.
    #[must_use]
    pub fn with_url_elicitation(mut self) -> Self {
        self.elicitation.get_or_insert_default().url = Some(JsonObject::new());
        self
    }

    /// The same, able to ask its model.
    #[must_use]
    pub fn with_sampling(mut self) -> Self {
        self.sampling = Some(JsonObject::new());
        self
    }

    /// The same, able to tell which directories it works in.
    #[must_use]
    pub fn with_roots(mut self) -> Self {
        self.roots = Some(JsonObject::new());
        self
    }

    /// The same, taking tasks for answers.
    #[must_use]
    pub fn with_tasks(mut self) -> Self {
        let settings = JsonObject::new().into();
        self.extensions.get_or_insert_default().insert(TASKS_EXTENSION.into(), settings);
        self
    }
}
