//! Subscriptions of modern clients. Each member with a requested resource gets its own subscription.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use thruway_mcp::federated::ListKind;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::SubscriptionFilter;
use thruway_mcp_server::backend::{Accepted, Caller, Change, Listening, ModernRequest, WantedNotifications};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::gateway_core::GatewayCore;
use super::member::ConnectionState;
use super::visible_members::VisibleMembers;
use crate::bridge::Subscriber;

/// A subscription at one member. Renews the subscription when the gateway has connected to the member again.
/// Dropping this value ends the subscription.
struct MemberSubscription(AbortHandle);

/// The resources of one member in a subscription.
struct Watched {
    gateway: Arc<GatewayCore>,
    member: usize,
    subscriber: Arc<Subscriber>,
    uris: Vec<String>,
}

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
    let subscriber = Arc::new(Subscriber::of(incoming, true)?);
    let (gateway, mut filter) = (gateway.clone(), wanted.filter);
    let hidden_uris = remove_hidden(&gateway, incoming.caller, &mut filter);
    let caller = incoming.caller.clone();
    Ok(Listening::Later(Box::pin(async move {
        let mut accepted = subscribe(&gateway, &caller, &subscriber, filter).await;
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
    gateway: &Arc<GatewayCore>,
    caller: &Caller,
    subscriber: &Arc<Subscriber>,
    mut filter: SubscriptionFilter,
) -> Accepted {
    let mut refused_uris = Vec::new();
    let mut uris_of: Vec<Vec<String>> = gateway.members.iter().map(|_| Vec::new()).collect();
    for uri in std::mem::take(&mut filter.resource_subscriptions) {
        match gateway.owner_of_uri(&uri).await {
            Some(member) => uris_of[member].push(uri),
            None => refused_uris.push(uri),
        }
    }
    let logs = subscriber.logs();
    let logging = match &logs {
        Some(_) => Some(VisibleMembers::of(gateway, caller).await),
        None => None,
    };
    let mut kept = Vec::new();
    for (member, uris) in uris_of.into_iter().enumerate() {
        let has_logs = logging.as_ref().is_some_and(|logging| logging.contains(member));
        if uris.is_empty() && !has_logs {
            continue;
        }
        let (gateway, subscriber) = (gateway.clone(), subscriber.clone());
        let watched = Watched { gateway, member, subscriber, uris };
        let (subscription, mut refused) = watched.begin(&mut filter.resource_subscriptions).await;
        refused_uris.append(&mut refused);
        kept.push(subscription);
    }
    let wanted = WantedNotifications { filter, ..WantedNotifications::default() };
    Accepted { wanted, refused_uris, logs, kept: Some(Box::new(kept)), ..Accepted::default() }
}

impl Watched {
    /// Begins the subscription, and adds the accepted URIs to `accepted`. Also returns the refused URIs. The
    /// gateway accepts all URIs if the member is missing.
    async fn begin(mut self, accepted: &mut Vec<String>) -> (MemberSubscription, Vec<String>) {
        let mut connection = self.gateway.members[self.member].connection();
        let mut refused = Vec::new();
        let mut kept = None;
        if let Some(of_member) = self.subscribe(&mut connection).await {
            refused = of_member.refused_uris;
            kept = of_member.kept;
        }
        self.uris.retain(|uri| !refused.contains(uri));
        accepted.extend_from_slice(&self.uris);
        let renewing = tokio::spawn(self.renew(connection, kept));
        (MemberSubscription(renewing.abort_handle()), refused)
    }

    /// Renews the subscription whenever the gateway has connected to the member again. `kept` keeps the
    /// current subscription alive.
    async fn renew(
        self,
        mut connection: watch::Receiver<ConnectionState>,
        mut kept: Option<Box<dyn Any + Send + Sync>>,
    ) {
        while connection.changed().await.is_ok() {
            if !matches!(*connection.borrow(), ConnectionState::Connected) {
                continue;
            }
            // The old subscription ends after the new one has started, because they may share a connection.
            let renewed = self.subscribe(&mut connection).await;
            kept = renewed.and_then(|renewed| renewed.kept).or(kept);
            for uri in &self.uris {
                self.gateway.announce(&Change::Resource(uri.as_str().into()));
            }
        }
        drop(kept);
    }

    /// Subscribes at the member. Returns `None` if the member is missing. The state that `connection` has
    /// then seen is the state of the connection at the start of the subscription.
    async fn subscribe(&self, connection: &mut watch::Receiver<ConnectionState>) -> Option<Accepted> {
        let member = &self.gateway.members[self.member];
        // If the member connects during this subscription, the caller subscribes once more.
        connection.mark_unchanged();
        let bridge =
            if self.uris.is_empty() { member.bridge().cloned() } else { member.connected().await.ok() };
        let filter =
            SubscriptionFilter { resource_subscriptions: self.own_uris(), ..SubscriptionFilter::default() };
        match bridge?.subscribe(&self.subscriber, filter).await {
            Ok(accepted) => {
                let refused_uris = accepted.refused_uris.iter().map(|own| self.public_uri(own)).collect();
                Some(Accepted { refused_uris, ..accepted })
            }
            Err(error) => {
                tracing::debug!(server = %member.name, "cannot subscribe: {error}");
                Some(Accepted { refused_uris: self.uris.clone(), ..Accepted::default() })
            }
        }
    }

    /// Returns the URIs that the member uses.
    fn own_uris(&self) -> Vec<String> {
        match self.gateway.names.uris_of(self.member) {
            Some(uris) => self.uris.iter().filter_map(|uri| uris.own(uri)).map(Cow::into_owned).collect(),
            None => self.uris.clone(),
        }
    }

    fn public_uri(&self, own: &str) -> String {
        self.gateway.names.uris_of(self.member).map_or_else(|| own.to_owned(), |uris| uris.public(own))
    }
}

impl Drop for MemberSubscription {
    fn drop(&mut self) {
        self.0.abort();
    }
}
