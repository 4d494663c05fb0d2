//! Subscriptions of modern clients. Each member with a requested resource gets its own subscription.

use std::any::Any;
use std::sync::Arc;

use thruway_mcp::federated::ListKind;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::SubscriptionFilter;
use thruway_mcp_server::backend::{Accepted, Caller, Listening, ModernRequest, WantedNotifications};

use super::gateway_core::GatewayCore;
use crate::bridge::Subscriber;

/// Starts a subscription. Clients always get notifications about changes of lists, because the gateway itself
/// subscribes to the lists of its members.
///
/// # Errors
/// The capabilities in the request are invalid.
pub(super) fn listen(
    gateway: &Arc<GatewayCore>,
    incoming: &ModernRequest<'_>,
    wanted: WantedNotifications,
) -> Result<Listening, Error> {
    let subscriber = Subscriber::of(incoming, true)?;
    let (gateway, mut filter) = (gateway.clone(), wanted.filter);
    let hidden_uris = remove_hidden(&gateway, incoming.caller, &mut filter);
    Ok(Listening::Later(Box::pin(async move {
        let mut accepted = subscribe(&gateway, &subscriber, filter).await;
        accepted.refused_uris.extend(hidden_uris);
        Ok(accepted)
    })))
}

/// Removes the resources that the caller cannot see from `filter`, and returns their URIs.
fn remove_hidden(gateway: &GatewayCore, caller: &Caller, filter: &mut SubscriptionFilter) -> Vec<String> {
    let Some(access) = gateway.access_of(caller) else { return Vec::new() };
    let is_hidden = |uri: &mut String| !access.allows(ListKind::Resources, uri);
    filter.resource_subscriptions.extract_if(.., is_hidden).collect()
}

async fn subscribe(
    gateway: &GatewayCore,
    subscriber: &Subscriber,
    mut filter: SubscriptionFilter,
) -> Accepted {
    let uris = std::mem::take(&mut filter.resource_subscriptions);
    let mut all = Accepted::default();
    let mut uris_of: Vec<Vec<String>> = gateway.members.iter().map(|_| Vec::new()).collect();
    for uri in uris {
        match gateway.owner_of_uri(&uri).await {
            Some(member) => uris_of[member].push(uri),
            None => all.refused_uris.push(uri),
        }
    }
    let mut kept: Vec<Box<dyn Any + Send + Sync>> = Vec::new();
    for (member, uris) in uris_of.into_iter().enumerate() {
        let of_member = match subscribe_at(gateway, member, subscriber, uris.clone()).await {
            Some(of_member) => of_member,
            None => Accepted { refused_uris: uris, ..Accepted::default() },
        };
        filter.resource_subscriptions.extend(of_member.wanted.filter.resource_subscriptions);
        all.refused_uris.extend(of_member.refused_uris);
        all.logs = all.logs.or(of_member.logs);
        kept.extend(of_member.kept);
    }
    all.wanted = WantedNotifications { filter, ..WantedNotifications::default() };
    all.kept = Some(Box::new(kept));
    all
}

/// Subscribes to log messages of one member, and to changes of its resources `uris`. Returns `None` if the
/// member is missing or refuses the subscription.
async fn subscribe_at(
    gateway: &GatewayCore,
    member: usize,
    subscriber: &Subscriber,
    uris: Vec<String>,
) -> Option<Accepted> {
    let member = &gateway.members[member];
    let bridge = if uris.is_empty() { member.bridge().cloned() } else { member.connected().await.ok() };
    let filter = SubscriptionFilter { resource_subscriptions: uris, ..SubscriptionFilter::default() };
    match bridge?.subscribe(subscriber, filter).await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::debug!(server = %member.name, "cannot subscribe: {error}");
            None
        }
    }
}
