//! One server behind a bridge.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{LoggingLevel, SubscriptionFilter};
use thruway_mcp_client::{McpClient, McpClientError, Subscription};
use thruway_mcp_server::backend::{Holder, NoShare, Share, check_share};
use thruway_net::unguessable_id;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::logs::LogListeners;

/// One server behind a bridge: for all, for one session, or for one call at a time.
pub(crate) struct Upstream {
    pub(super) client: McpClient,
    /// What tells it apart from others.
    number: u64,
    /// Distinguishes it from upstreams of other bridges and of earlier runs of this one.
    nonce: Box<str>,
    /// Watched resources, by their URIs.
    watches: Mutex<HashMap<Box<str>, WatchedResource>>,
    /// Tells of lists that change, once somebody wants to know.
    lists: Mutex<Watched>,
    /// The level of log messages that the server was asked for (legacy era).
    log_level: tokio::sync::Mutex<Option<LoggingLevel>>,
    pub(super) log_listeners: Arc<LogListeners>,
    /// The place of a server that is for one client alone.
    place: Mutex<Option<Share>>,
    is_alone: bool,
    /// Who tells of roots takes turns here.
    roots: tokio::sync::Mutex<()>,
    /// Somebody is about to tell.
    roots_are_due: AtomicBool,
    since: Instant,
}

/// A subscription, once it stands: who wants it too waits for that, and nobody else does.
type Watched = Arc<OnceCell<Subscription>>;

/// Keeps a server telling of a resource, for one caller.
#[derive(Debug)]
pub(crate) struct Watch {
    upstream: Arc<Upstream>,
    uri: Box<str>,
    holder: Holder,
    watched: Watched,
}

/// A resource that is watched.
#[derive(Debug)]
struct WatchedResource {
    watched: Weak<OnceCell<Subscription>>,
    /// The callers that watch it, each with the number of its watches; empty only if all have gone.
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
        number: u64,
        place: Option<Share>,
        log_listeners: Arc<LogListeners>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            number,
            watches: Mutex::default(),
            lists: Mutex::default(),
            log_level: tokio::sync::Mutex::default(),
            log_listeners,
            nonce: unguessable_id(),
            is_alone: place.is_some(),
            place: Mutex::new(place),
            roots: tokio::sync::Mutex::default(),
            roots_are_due: AtomicBool::new(false),
            since: Instant::now(),
        })
    }

    /// What tells it apart from others.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name of the server process, which no other process has; empty for a server over HTTP, of
    /// which nobody knows the process.
    pub(super) fn run(&self) -> String {
        if self.client.is_on_stream() {
            format!("{}-{}", self.nonce, self.client.losses())
        } else {
            String::new()
        }
    }

    /// Whether it has gone for good.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// How long it has been there.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Makes room for another one, whoever still holds this one.
    pub(super) fn make_room(&self) {
        drop(self.place().take());
    }

    /// Returns `true` for a server that is for one client alone and counts against `holder`.
    pub(super) fn is_of(&self, holder: &Holder) -> bool {
        self.place().as_ref().is_some_and(|place| place.holder() == Some(holder))
    }

    /// Counts a server that waits for its next call against no caller.
    pub(super) fn keep_place(&self) {
        if let Some(place) = self.place().as_mut() {
            place.keep();
        }
    }

    /// Counts a server that has waited against `holder`; `false` if the holder has its share already.
    pub(super) fn give_place_to(&self, holder: &Holder) -> bool {
        self.place().as_mut().is_none_or(|place| place.give_to(holder).is_ok())
    }

    fn place(&self) -> MutexGuard<'_, Option<Share>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that the client's roots have changed, once for all who say so meanwhile.
    pub(super) fn tell_of_roots(self: Arc<Self>) {
        if self.roots_are_due.swap(true, Ordering::AcqRel) {
            return;
        }
        tokio::spawn(async move {
            let _turn = self.roots.lock().await;
            self.roots_are_due.store(false, Ordering::Release);
            // A server that is gone asks when it is there again.
            let _ = self.client.roots_changed().await;
        });
    }

    /// Takes over the log level and the listeners of `gone`, which this server replaces: clients do not
    /// repeat what they want.
    pub(super) fn log_as(&self, gone: &Self) {
        self.log_listeners.copy_from(&gone.log_listeners);
        self.client.log_as(&gone.client);
    }

    /// Asks for the log messages that any listener wants: each is told what it wants itself.
    pub(super) async fn log_for_listeners(&self) -> Result<(), McpClientError> {
        let mut asked = self.log_level.lock().await;
        let finest = self.log_listeners.finest();
        // Sessions that have said nothing want what is usual.
        let finest = if self.is_alone { finest } else { finest.min(Some(LoggingLevel::Info)) };
        match finest {
            Some(level) if *asked != finest => self.ask_for_logs(&mut asked, level).await,
            _ => Ok(()),
        }
    }

    /// Asks for log messages from `level` on, unless more are asked for. A server that does not want to sends
    /// what it likes, and no call waits for what somebody else asks.
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
        self.client.clone().hurried(LOGS_WAIT).set_logging_level(level).await?;
        *asked = Some(level);
        Ok(())
    }

    /// Hears of changes of a resource for `holder`, as long as what is returned is kept.
    pub(crate) async fn watch(self: &Arc<Self>, uri: &str, holder: &Holder) -> Result<Watch, McpClientError> {
        let watch = self.begin_watch(uri, holder).map_err(McpClientError::Server)?;
        let filter = SubscriptionFilter {
            resource_subscriptions: vec![uri.to_owned()],
            ..SubscriptionFilter::default()
        };
        watch.watched.get_or_try_init(|| self.client.listen(filter)).await?;
        Ok(watch)
    }

    /// Notes that `holder` watches a resource, together with others that watch the same one.
    ///
    /// # Errors
    /// Too many resources are watched, by all callers or by `holder`.
    fn begin_watch(self: &Arc<Self>, uri: &str, holder: &Holder) -> Result<Watch, Error> {
        let mut resources = self.watches();
        let standing = resources.get_mut(uri).and_then(|resource| {
            let watched = resource.watched.upgrade().filter(is_useful)?;
            *resource.watchers.entry(holder.clone()).or_default() += 1;
            Some(watched)
        });
        let watched = match standing {
            Some(watched) => watched,
            None => begin_watched(&mut resources, uri, holder)?,
        };
        Ok(Watch { upstream: self.clone(), uri: uri.into(), holder: holder.clone(), watched })
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Box<str>, WatchedResource>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Drop for Upstream {
    /// There is no other place that learns that nobody uses it any more, and a server over HTTP does not
    /// notice by itself.
    fn drop(&mut self) {
        self.client.close_apart();
    }
}

/// Adds a resource that `holder` is the first to watch.
fn begin_watched(
    resources: &mut HashMap<Box<str>, WatchedResource>,
    uri: &str,
    holder: &Holder,
) -> Result<Watched, Error> {
    resources.retain(|_, resource| resource.watched.strong_count() > 0);
    let held = resources.values().filter(|resource| resource.watchers.contains_key(holder)).count();
    check_share(holder, held, resources.len(), 1, WATCHES_MAX).map_err(|refusal| {
        Error::internal(match refusal {
            NoShare::Full => "too many resources are watched: try again later",
            NoShare::HolderHasShare => {
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
        // It may have been replaced by a new subscription to the same resource.
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

/// Whether it tells, or will: one that has ended does not.
fn is_useful(watched: &Watched) -> bool {
    watched.get().is_none_or(|subscription| subscription.end().is_none())
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("client", &self.client).finish_non_exhaustive()
    }
}

/// How long a server may take to say that it will log so: other sessions wait for that.
const LOGS_WAIT: Duration = Duration::from_secs(10);

/// How many resources of one server are watched, whoever wants it; more are refused.
const WATCHES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_mcp_server::McpServer;

    fn caller(name: &str) -> Holder {
        Holder::new(Some(name.to_owned()), None)
    }

    /// One caller could watch as many resources as one server may have watched.
    #[test]
    fn one_caller_leaves_watched_resources_for_others() {
        let mut resources = HashMap::new();
        let mut kept = Vec::new();
        let mut watch = |holder: &Holder, n: usize| {
            let watched = begin_watched(&mut resources, &format!("test://{n}"), holder);
            watched.map(|watched| kept.push(watched)).map_err(|error| error.message.into_owned())
        };
        let (ada, bob) = (caller("ada"), caller("bob"));
        for n in 0..WATCHES_MAX / 2 {
            watch(&ada, n).unwrap();
        }
        assert!(watch(&ada, WATCHES_MAX).unwrap_err().contains("this caller watches too many"));
        watch(&bob, WATCHES_MAX).unwrap();
        // Programs on this machine have no share, only the limit.
        for n in WATCHES_MAX / 2 + 1..WATCHES_MAX {
            watch(&Holder::Unknown, n).unwrap();
        }
        assert!(
            watch(&caller("eve"), WATCHES_MAX + 1).unwrap_err().contains("too many resources are watched")
        );
    }

    #[tokio::test]
    async fn a_resource_counts_for_each_caller_as_long_as_the_caller_watches_it() {
        let server = McpServer::new("watched", "1");
        let server = server.resource(thruway_mcp::schema::Resource::new("test://a", "a"), || "text");
        let upstream = Upstream::new(McpClient::builder().server(&server), 1, None, Arc::default());
        let (ada, bob) = (caller("ada"), caller("bob"));
        let count =
            |holder| upstream.watches().get("test://a").and_then(|one| one.watchers.get(holder).copied());
        let first = upstream.watch("test://a", &ada).await.unwrap();
        let second = upstream.watch("test://a", &ada).await.unwrap();
        let third = upstream.watch("test://a", &bob).await.unwrap();
        assert!(Arc::ptr_eq(&first.watched, &third.watched), "they share a subscription");
        assert_eq!((count(&ada), count(&bob)), (Some(2), Some(1)));
        drop((first, third));
        assert_eq!((count(&ada), count(&bob)), (Some(1), None));
        drop(second);
        assert_eq!(count(&ada), None);
    }
}
