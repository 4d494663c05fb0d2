//! One server behind a bridge.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{LoggingLevel, SubscriptionFilter};
use tokio::sync::{OnceCell, OwnedSemaphorePermit};
use tokio::time::Instant;

use super::logs::LogListeners;
use crate::client::{McpClient, McpClientError, Subscription};
use crate::session::{Session, unguessable_id};

/// One server behind a bridge: for all, for one session, or for one call at a time.
pub(crate) struct Upstream {
    pub(super) client: McpClient,
    /// What tells it apart from others.
    number: u64,
    /// Distinguishes it from upstreams of other bridges and of earlier runs of this one.
    nonce: Box<str>,
    /// What is watched, by the URI of the resource.
    watches: Mutex<HashMap<String, Weak<OnceCell<Subscription>>>>,
    /// Tells of lists that change, once somebody wants to know.
    lists: Mutex<Watched>,
    /// The level of log messages that the server was asked for (legacy era).
    log_level: tokio::sync::Mutex<Option<LoggingLevel>>,
    pub(super) log_listeners: Arc<LogListeners>,
    /// That there may be one more, if it is for one client alone.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    is_alone: bool,
    /// Who tells of roots takes turns here.
    roots: tokio::sync::Mutex<()>,
    /// Somebody is about to tell.
    roots_are_due: AtomicBool,
    since: Instant,
}

/// A subscription, once it stands: who wants it too waits for that, and nobody else does.
type Watched = Arc<OnceCell<Subscription>>;

/// Keeps a server telling of a resource.
#[derive(Debug)]
pub(crate) struct Watch {
    upstream: Arc<Upstream>,
    _watched: Watched,
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
        permit: Option<OwnedSemaphorePermit>,
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
            is_alone: permit.is_some(),
            permit: Mutex::new(permit),
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
        drop(self.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
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

    /// Asks for the log messages that `session` wants, and for all that other sessions want too: each is told what it wants
    /// itself.
    pub(super) async fn log_for(&self, session: &Arc<Session>) -> Result<(), McpClientError> {
        let mut asked = self.log_level.lock().await;
        self.log_listeners.add_session(session);
        let finest = self.log_listeners.finest();
        // Sessions that have said nothing want what is usual.
        let finest = if self.is_alone { finest } else { finest.min(Some(LoggingLevel::Info)) };
        match finest {
            Some(level) if *asked != finest => self.ask_for_logs(&mut asked, level).await,
            _ => Ok(()),
        }
    }

    /// Asks for log messages from `level` on, unless more are asked for. A server that does not want to sends what it likes, and
    /// no call waits for what somebody else asks.
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

    /// Hears of changes of a resource until nobody keeps what is returned.
    pub(crate) async fn watch(self: &Arc<Self>, uri: &str) -> Result<Watch, McpClientError> {
        let watched = self.subscription(uri).await?;
        Ok(Watch { upstream: self.clone(), _watched: watched })
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

impl Drop for Upstream {
    /// There is no other place that learns that nobody uses it any more, and a server over HTTP does not notice by itself.
    fn drop(&mut self) {
        self.client.close_apart();
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
