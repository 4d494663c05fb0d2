//! Notifications about progress and cancellation, and subscriptions to other notifications (MCP revision
//! 2026-07-28).

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::meta::{MetaObject, ProgressToken};
use crate::json_rpc::RequestId;

/// The progress of a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressNotificationParams {
    /// The progress token that the client chose for the request.
    pub progress_token: ProgressToken,
    /// The current progress, which increases with each notification.
    pub progress: f64,
    /// The value that `progress` has at the end of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A description of the current step (since MCP revision 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The cancellation of a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledNotificationParams {
    /// The id of the request.
    pub request_id: RequestId,
    /// The reason for the cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Parameters of a request for a subscription.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubscriptionsListenRequestParams {
    /// The requested notifications.
    pub notifications: SubscriptionFilter,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The notifications that the server agreed to send on a subscription.
pub type SubscriptionsAcknowledgedNotificationParams = SubscriptionsListenRequestParams;

/// Result of `subscriptions/listen`, which the server sends at the end of a subscription.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct SubscriptionsListenResult {
    /// Metadata with the id of the subscription.
    #[serde(rename = "_meta")]
    pub meta: MetaObject,
}

/// The notifications that a client wants to receive on a subscription.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// Changes of the list of prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// Changes of the list of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// Changes of the resources with these URIs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
}
