//! Notifications of progress and of the end of requests, and subscriptions to others (2026-07-28).

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::meta::{MetaObject, ProgressToken};
use crate::json_rpc::RequestId;

/// How far a request is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressNotificationParams {
    /// What the client called it.
    pub progress_token: ProgressToken,
    /// How far; more each time.
    pub progress: f64,
    /// How far it will be at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done (from 2025-03-26 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A request that is given up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledNotificationParams {
    /// Which.
    pub request_id: RequestId,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a client wants to be told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubscriptionsListenRequestParams {
    /// About what.
    pub notifications: SubscriptionFilter,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a subscription will be told.
pub type SubscriptionsAcknowledgedNotificationParams = SubscriptionsListenRequestParams;

/// The end of a subscription.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct SubscriptionsListenResult {
    /// Which subscription.
    #[serde(rename = "_meta")]
    pub meta: MetaObject,
}

/// What a subscription is about.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionFilter {
    /// That there are other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// That there are other prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// That there are other resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// That these resources have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
}
