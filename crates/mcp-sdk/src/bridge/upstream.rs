//! One server behind a bridge.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::SubscriptionFilter;
use tokio::sync::{OnceCell, OwnedSemaphorePermit};

use crate::client::{McpClient, McpClientError, Subscription};

/// One server behind a bridge: for all, for one session, or for one call at a time.
pub(crate) struct Upstream {
    pub(super) client: McpClient,
    /// What is watched, by the URI of the resource.
    watches: Mutex<HashMap<String, Weak<OnceCell<Subscription>>>>,
    /// Tells of lists that change, once somebody wants to know.
    lists: Mutex<Watched>,
    /// That there may be one more.
    _permit: Option<OwnedSemaphorePermit>,
}

/// A subscription, once it stands: who wants it too waits for that, and nobody else does.
type Watched = Arc<OnceCell<Subscription>>;

/// Keeps a server telling of a resource.
#[derive(Debug)]
pub(crate) struct Watch {
    _upstream: Arc<Upstream>,
    _watched: Watched,
}

impl Upstream {
    pub(super) fn new(client: McpClient, permit: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        Arc::new(Self { client, watches: Mutex::default(), lists: Mutex::default(), _permit: permit })
    }

    /// Hears of changes of a resource until nobody keeps what is returned.
    pub(crate) async fn watch(self: &Arc<Self>, uri: &str) -> Result<Watch, McpClientError> {
        let watched = self.subscription(uri).await?;
        Ok(Watch { _upstream: self.clone(), _watched: watched })
    }

    async fn subscription(&self, uri: &str) -> Result<Watched, McpClientError> {
        let watched = self.watched(uri)?;
        let filter = SubscriptionFilter {
            resource_subscriptions: vec![uri.to_owned()],
            ..SubscriptionFilter::default()
        };
        watched.get_or_try_init(|| self.client.listen(filter)).await?;
        Ok(watched)
    }

    /// The place of the subscription to a resource, for all who want to hear of it.
    fn watched(&self, uri: &str) -> Result<Watched, McpClientError> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = watches.get(uri).and_then(Weak::upgrade).filter(is_useful) {
            return Ok(standing);
        }
        watches.retain(|_, watched| watched.strong_count() > 0);
        if watches.len() >= WATCHES_MAX {
            return Err(McpClientError::Server(Error::internal("too many resources are watched")));
        }
        let begun = Watched::default();
        watches.insert(uri.to_owned(), Arc::downgrade(&begun));
        Ok(begun)
    }

    /// Hears of lists that change for as long as this is there.
    pub(super) async fn watch_lists(&self) -> Result<(), McpClientError> {
        let filter = SubscriptionFilter {
            tools_list_changed: Some(true),
            prompts_list_changed: Some(true),
            resources_list_changed: Some(true),
            ..SubscriptionFilter::default()
        };
        let lists = self.lists();
        lists.get_or_try_init(|| self.client.listen(filter)).await.map(drop)
    }

    fn lists(&self) -> Watched {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_useful(&lists) {
            *lists = Watched::default();
        }
        lists.clone()
    }
}

/// Whether it tells, or will: one that has ended does not.
fn is_useful(watched: &Watched) -> bool {
    watched.get().is_none_or(|subscription| subscription.end().is_none())
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("client", &self.client).finish_non_exhaustive()
    }
}

/// How many resources of one server are watched, whoever wants it; more are refused.
const WATCHES_MAX: usize = 10_000;
