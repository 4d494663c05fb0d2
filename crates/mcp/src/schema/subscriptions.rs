//! Subscriptions (2026-07-28).

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::MetaObject;

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
