//! Makes each replica respond to the challenges of the running order of another replica.
//!
//! Each replica lists the challenge responses that it sends. The replica with the order waits until all lists
//! contain its responses, and only then tells the ACME server to connect.

use std::collections::HashMap;
use std::time::Duration;

use thruway_store::{StoreError, SubscriptionEvent};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Challenges;
use super::challenges::Published;
use super::shared_order::OrderChallenges;
use super::shared_state::{SharedChange, SharedState};

/// Follows the shared store for one ACME server.
pub(super) struct ReplicaFollower {
    state: SharedState,
    challenges: Challenges,
    /// Wakes the renewers when a replica has stored a certificate.
    changed: watch::Sender<()>,
    /// The published responses of other replicas, by their ids.
    published: HashMap<String, Published>,
}

impl SharedState {
    /// Returns `true` if all replicas send the responses with the ids `ids`.
    pub(super) async fn are_shown_by_all(&self, ids: &[String]) -> Result<bool, StoreError> {
        let replicas: Vec<(String, Vec<String>)> = self.secrets.list(&self.key("replicas")).await?;
        let mut others = replicas.iter().filter(|(replica, _)| replica != self.secrets.replica());
        Ok(others.all(|(_, shown)| ids.iter().all(|id| shown.contains(id))))
    }
}

impl ReplicaFollower {
    pub(super) fn new(state: SharedState, challenges: Challenges, changed: watch::Sender<()>) -> Self {
        Self { state, challenges, changed, published: HashMap::new() }
    }

    /// Follows the store in an endless loop.
    pub(super) async fn run(mut self) {
        let mut changes = self.state.secrets.store().subscribe(&self.state.key("changes"));
        loop {
            let earliest = Instant::now() + PAUSE_MIN;
            // If the store fails, the renewers log the failure. The published responses stay published.
            let _ = self.follow_challenges().await;
            tokio::select! {
                () = sleep(self.state.pace.follow) => {}
                Some(event) = changes.next() => {
                    let change = match event {
                        SubscriptionEvent::Message(message) => SharedChange::of(&message),
                        SubscriptionEvent::Gap => SharedChange::Certificate,
                    };
                    if change == SharedChange::Certificate {
                        self.changed.send_replace(());
                    }
                    sleep_until(earliest).await;
                }
            }
        }
    }

    /// Publishes the responses of the order of another replica, and lists these responses in the store.
    async fn follow_challenges(&mut self) -> Result<(), StoreError> {
        let SharedState { secrets, pace, .. } = &self.state;
        let running: Option<OrderChallenges> = secrets.fenced(&self.state.key("challenges")).await?;
        let running = running.filter(|running| running.replica != secrets.replica());
        let responses = running.into_iter().flat_map(|running| running.responses);
        let wanted: HashMap<_, _> = responses.map(|response| (response.id(), response)).collect();
        self.published.retain(|id, _| wanted.contains_key(id));
        for (id, response) in wanted {
            if !self.published.contains_key(&id)
                && let Ok(published) = self.challenges.publish(&response)
            {
                self.published.insert(id, published);
            }
        }
        let shown: Vec<_> = self.published.keys().cloned().collect();
        let replicas = self.state.key("replicas");
        secrets.put_member(&replicas, secrets.replica(), &shown, 3 * pace.follow).await
    }
}

/// Minimum time between two reads of the store. Each program that can connect to the store can send messages.
const PAUSE_MIN: Duration = Duration::from_millis(100);
