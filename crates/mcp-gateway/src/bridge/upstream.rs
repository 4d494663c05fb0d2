//! One connection of a bridge to its server.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{LoggingLevel, SubscriptionFilter};
use thruway_mcp_client::{McpClient, McpClientError, Subscription};
use thruway_mcp_server::backend::{Holder, LimitReached, Share, check_share};
use thruway_net::unguessable_id;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::credentials::CallerCredential;
use super::logs::LogListeners;

/// One connection to the server. A shared connection serves several clients. A dedicated connection serves
/// one session, or one call at a time.
pub(crate) struct Upstream {
    pub(super) client: McpClient,
    /// The unique id of the connection within this bridge.
    connection_id: u64,
    /// A random text that identifies this connection. Unlike `connection_id`, the text is unique across
    /// several bridges, and across restarts of a bridge.
    nonce: Box<str>,
    /// The resources that callers watch for changes, by URI.
    watches: Mutex<HashMap<Box<str>, WatchedResource>>,
    /// The subscription to changes of the tool list, the prompt list and the resource list. The bridge
    /// starts this subscription on demand.
    lists: Mutex<Watched>,
    /// The log level that the bridge has requested from a legacy server.
    log_level: tokio::sync::Mutex<Option<LoggingLevel>>,
    pub(super) log_listeners: Arc<LogListeners>,
    /// The slot of a dedicated server, which counts toward the limit `servers_max`. `None` for a shared
    /// server, or after the slot was released.
    share: Mutex<Option<Share>>,
    is_dedicated: bool,
    /// The credential of the only caller of this connection. `None` if the connection has the credential of the
    /// gateway.
    credential: Option<Arc<CallerCredential>>,
    /// Locked while the bridge notifies the server that the client's roots have changed.
    roots: tokio::sync::Mutex<()>,
    /// `true` while a notification about changed roots waits to be sent.
    roots_are_due: AtomicBool,
    since: Instant,
}

/// A subscription at the server that may still be starting. Several callers can wait for the start of the
/// same subscription.
type Watched = Arc<OnceCell<Subscription>>;

/// A caller's subscription to a resource. When the last [`Watch`] of a resource is dropped, the bridge
/// unsubscribes.
#[derive(Debug)]
pub(crate) struct Watch {
    upstream: Arc<Upstream>,
    uri: Box<str>,
    holder: Holder,
    watched: Watched,
}

/// A resource that callers watch for changes.
#[derive(Debug)]
struct WatchedResource {
    watched: Weak<OnceCell<Subscription>>,
    /// Number of existing [`Watch`] values for this resource, by caller.
    watchers: HashMap<Holder, usize>,
}

impl Watch {
    pub(super) fn is_of(&self, upstream: &Arc<Upstream>) -> bool {
        Arc::ptr_eq(&self.upstream, upstream)
    }
}

impl Upstream {
    pub(super) fn new(
        client: McpClient,
        connection_id: u64,
        share: Option<Share>,
        log_listeners: Arc<LogListeners>,
        credential: Option<Arc<CallerCredential>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            connection_id,
            watches: Mutex::default(),
            lists: Mutex::default(),
            log_level: tokio::sync::Mutex::default(),
            log_listeners,
            nonce: unguessable_id(),
            is_dedicated: share.is_some(),
            share: Mutex::new(share),
            credential,
            roots: tokio::sync::Mutex::default(),
            roots_are_due: AtomicBool::new(false),
            since: Instant::now(),
        })
    }

    /// Returns the unique id of the connection within this bridge.
    pub(super) const fn connection_id(&self) -> u64 {
        self.connection_id
    }

    /// Returns a text that identifies the current server process. The text changes when the server process
    /// restarts. The text is empty for a server over HTTP, because the bridge cannot detect restarts of such
    /// a server.
    pub(super) fn process_id(&self) -> String {
        if self.client.is_on_stream() {
            format!("{}-{}", self.nonce, self.client.connection_losses())
        } else {
            String::new()
        }
    }

    pub(super) const fn credential(&self) -> Option<&Arc<CallerCredential>> {
        self.credential.as_ref()
    }

    /// Returns `true` if requests with this credential can use the connection.
    pub(super) fn has_credential(&self, credential: Option<&Arc<CallerCredential>>) -> bool {
        self.credential.as_ref() == credential
    }

    /// Returns `true` if the connection is permanently closed.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Returns the time at which the connection was created.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Releases the slot of this dedicated server, even while the server is in use.
    pub(super) fn release_slot(&self) {
        drop(self.share().take());
    }

    /// Returns `true` if this is a dedicated server that counts toward the per-caller limit of `holder`.
    pub(super) fn is_of(&self, holder: &Holder) -> bool {
        self.share().as_ref().is_some_and(|share| share.holder() == Some(holder))
    }

    /// Stops counting this idle server toward any per-caller limit. The server still counts toward
    /// `servers_max`.
    pub(super) fn keep_share(&self) {
        if let Some(share) = self.share().as_mut() {
            share.keep();
        }
    }

    /// Counts an idle server toward the per-caller limit of `holder`. Returns `false` if `holder` has
    /// reached this limit.
    pub(super) fn assign_to(&self, holder: &Holder) -> bool {
        self.share().as_mut().is_none_or(|share| share.give_to(holder).is_ok())
    }

    fn share(&self) -> MutexGuard<'_, Option<Share>> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the server that the client's roots have changed. Does nothing if such a notification is
    /// already waiting to be sent.
    pub(super) fn notify_roots_changed(self: Arc<Self>) {
        if self.roots_are_due.swap(true, Ordering::AcqRel) {
            return;
        }
        tokio::spawn(async move {
            let _roots_lock = self.roots.lock().await;
            self.roots_are_due.store(false, Ordering::Release);
            // Ignore errors, because the server asks for the roots again after a restart.
            let _ = self.client.roots_changed().await;
        });
    }

    /// Takes over the log level and the log listeners of `gone`, the closed connection that this connection
    /// replaces. This is necessary because clients request log messages only once.
    pub(super) fn log_as(&self, gone: &Self) {
        self.log_listeners.copy_from(&gone.log_listeners);
        self.client.log_as(&gone.client);
    }

    /// Sets the server's log level to the lowest level that any client requests. The bridge later forwards
    /// each message only to the clients that have requested its severity.
    pub(super) async fn log_for_listeners(&self) -> Result<(), McpClientError> {
        let mut asked = self.log_level.lock().await;
        let finest = self.log_listeners.finest();
        // Sessions that requested no level still expect log messages of level `info` and above.
        let finest = if self.is_dedicated { finest } else { finest.min(Some(LoggingLevel::Info)) };
        match finest {
            Some(level) if *asked != finest => self.ask_for_logs(&mut asked, level).await,
            _ => Ok(()),
        }
    }

    /// Requests log messages of the severity `level` and above. Does nothing if the bridge has already
    /// requested a lower level, or if another tokio task is changing the log level. Ignores errors.
    pub(super) async fn log_from(&self, level: LoggingLevel) {
        let Ok(mut asked) = self.log_level.try_lock() else { return };
        if asked.is_none_or(|asked| level < asked) {
            *asked = Some(level);
            let _ = self.ask_for_logs(&mut asked, level).await;
        }
    }

    async fn ask_for_logs(
        &self,
        asked: &mut Option<LoggingLevel>,
        level: LoggingLevel,
    ) -> Result<(), McpClientError> {
        self.client.clone().with_short_timeout(LOGS_WAIT).set_logging_level(level).await?;
        *asked = Some(level);
        Ok(())
    }

    /// Subscribes `holder` to changes of a resource. Dropping the returned value ends the subscription.
    pub(crate) async fn watch(self: &Arc<Self>, uri: &str, holder: &Holder) -> Result<Watch, McpClientError> {
        let watch = self.begin_watch(uri, holder).map_err(McpClientError::Server)?;
        let filter = SubscriptionFilter {
            resource_subscriptions: vec![uri.to_owned()],
            ..SubscriptionFilter::default()
        };
        watch.watched.get_or_try_init(|| self.client.listen(filter)).await?;
        Ok(watch)
    }

    /// Registers that the caller `holder` watches a resource. All callers that watch the same resource share
    /// one subscription at the server.
    ///
    /// # Errors
    /// All callers together, or `holder` alone, watch too many resources.
    fn begin_watch(self: &Arc<Self>, uri: &str, holder: &Holder) -> Result<Watch, Error> {
        let mut resources = self.watches();
        let existing = resources.get_mut(uri).and_then(|resource| {
            let watched = resource.watched.upgrade().filter(is_useful)?;
            *resource.watchers.entry(holder.clone()).or_default() += 1;
            Some(watched)
        });
        let watched = match existing {
            Some(watched) => watched,
            None => begin_watched(&mut resources, uri, holder, WATCHES_MAX)?,
        };
        Ok(Watch { upstream: self.clone(), uri: uri.into(), holder: holder.clone(), watched })
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Box<str>, WatchedResource>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to changes of the tool list, the prompt list and the resource list, until this
    /// connection closes.
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

impl Drop for Upstream {
    /// Closes the connection, because no other code observes that it is unused. Without this close, a server
    /// over HTTP would keep the session, because it cannot detect that its client is gone.
    fn drop(&mut self) {
        self.client.close_in_background();
    }
}

/// Adds a resource to the map `resources` of watched resources. `holder` is the first caller that watches
/// this resource. `watches_max` is the maximum number of resources in the map.
fn begin_watched(
    resources: &mut HashMap<Box<str>, WatchedResource>,
    uri: &str,
    holder: &Holder,
    watches_max: usize,
) -> Result<Watched, Error> {
    resources.retain(|_, resource| resource.watched.strong_count() > 0);
    let held = resources.values().filter(|resource| resource.watchers.contains_key(holder)).count();
    check_share(holder, held, resources.len(), 1, watches_max).map_err(|refusal| {
        Error::internal(match refusal {
            LimitReached::Full => "the callers of this bridge watch too many resources: try again later",
            LimitReached::HolderHasShare => {
                "this caller watches too many resources: end a subscription, then try again"
            }
        })
    })?;
    let begun = Watched::default();
    let watchers = HashMap::from([(holder.clone(), 1)]);
    resources.insert(uri.into(), WatchedResource { watched: Arc::downgrade(&begun), watchers });
    Ok(begun)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watches = self.upstream.watches();
        let Some(resource) = watches.get_mut(&self.uri) else { return };
        // The map may contain a newer subscription to the same resource, which does not belong to this
        // `Watch`.
        if !std::ptr::eq(resource.watched.as_ptr(), Arc::as_ptr(&self.watched)) {
            return;
        }
        if let Some(count) = resource.watchers.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                resource.watchers.remove(&self.holder);
            }
        }
    }
}

/// Returns `true` if the subscription is active or still starting.
fn is_useful(watched: &Watched) -> bool {
    watched.get().is_none_or(|subscription| subscription.end().is_none())
}

/// Decides whether an earlier attempt to connect delays the next attempt.
#[derive(Default)]
pub(super) struct Reconnecting {
    /// Time at which the server was back after a loss.
    returned: Mutex<Option<Instant>>,
}

impl Reconnecting {
    /// Notes that the server is back after a loss. Attempts before this time delay no further attempts.
    pub(super) fn note_returned(&self) {
        *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns `true` if an attempt at the time `at` delays the next attempt.
    pub(super) fn is_delayed_by(&self, at: Instant, pause: Duration) -> bool {
        let returned = *self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        at.elapsed() < pause && returned.is_none_or(|returned| at > returned)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Maximum time that the bridge waits until a server has changed its log level. In the meantime, other
/// requests for log messages wait too.
const LOGS_WAIT: Duration = Duration::from_secs(10);

/// Maximum number of watched resources per server, for all callers together.
const WATCHES_MAX: usize = 10_000;

/// Minimum time between two attempts to connect for the requests of clients, after the server has closed a
/// connection.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_mcp_server::McpServer;

    fn caller(name: &str) -> Holder {
        Holder::new(Some(name.to_owned()), None)
    }

    /// Regression test: one caller could use up the watched resources of a server.
    #[test]
    fn caller_cannot_exceed_its_share_of_watched_resources() {
        let mut resources = HashMap::new();
        let mut kept = Vec::new();
        let mut watch = |holder: &Holder, n: usize| {
            let watched = begin_watched(&mut resources, &format!("test://{n}"), holder, 20);
            watched.map(|watched| kept.push(watched)).map_err(|error| error.message.into_owned())
        };
        let (ada, bob) = (caller("ada"), caller("bob"));
        for n in 0..10 {
            watch(&ada, n).unwrap();
        }
        assert!(watch(&ada, 20).unwrap_err().contains("this caller watches too many"));
        watch(&bob, 20).unwrap();
        // Programs on this machine have no share per caller. Only the total limit applies.
        for n in 11..20 {
            watch(&Holder::Unknown, n).unwrap();
        }
        assert!(watch(&caller("eve"), 21).unwrap_err().contains("watch too many resources"));
    }

    #[tokio::test]
    async fn resource_counts_for_each_caller_while_it_watches() {
        let server = McpServer::new("watched", "1");
        let server = server.resource(thruway_mcp::schema::Resource::new("test://a", "a"), || "text");
        let upstream = Upstream::new(McpClient::builder().server(&server), 1, None, Arc::default(), None);
        let (ada, bob) = (caller("ada"), caller("bob"));
        let count =
            |holder| upstream.watches().get("test://a").and_then(|one| one.watchers.get(holder).copied());
        let first = upstream.watch("test://a", &ada).await.unwrap();
        let second = upstream.watch("test://a", &ada).await.unwrap();
        let third = upstream.watch("test://a", &bob).await.unwrap();
        assert!(Arc::ptr_eq(&first.watched, &third.watched), "both watchers should share a subscription");
        assert_eq!((count(&ada), count(&bob)), (Some(2), Some(1)));
        drop((first, third));
        assert_eq!((count(&ada), count(&bob)), (Some(1), None));
        drop(second);
        assert_eq!(count(&ada), None);
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_before_the_return_of_the_server_delays_no_attempt() {
        let reconnecting = Reconnecting::default();
        let attempt = Instant::now();
        assert!(reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
        tokio::time::advance(RECONNECT_PAUSE / 2).await;
        reconnecting.note_returned();
        assert!(!reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
        tokio::time::advance(RECONNECT_PAUSE / 4).await;
        let attempt = Instant::now();
        assert!(reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
        tokio::time::advance(RECONNECT_PAUSE).await;
        assert!(!reconnecting.is_delayed_by(attempt, RECONNECT_PAUSE));
    }
}
