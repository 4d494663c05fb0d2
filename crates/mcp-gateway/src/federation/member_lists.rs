//! The cached lists of one member.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp::federated::{ListKind, MemberName};
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::schema::Implementation;
use thruway_mcp_client::McpClientError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::fetch::{ListConnection, MemberList, fetch_list};

/// Provides the connection on which the catalog fetches the lists of a member.
pub(super) trait ListSource: fmt::Debug + Send + Sync + 'static {
    /// Returns the connection to the member. Waits while the first attempt to connect is running.
    fn connection(&self) -> ConnectionFuture;
}

/// The future of [`ListSource::connection`].
pub(super) type ConnectionFuture =
    Pin<Box<dyn Future<Output = Result<ListConnection, McpClientError>> + Send>>;

/// Called when a list that clients have received is outdated, and the member has not reported this.
pub(super) type OnChange = Arc<dyn Fn(ListKind) + Send + Sync>;

/// The cached lists of one member. For each kind of list, at most one fetch runs at a time.
pub(super) struct MemberLists {
    name: MemberName,
    source: Arc<dyn ListSource>,
    settings: Settings,
    lists: [Mutex<CachedList>; ListKind::ALL.len()],
    /// Notified when a fetch has ended, and when a list was marked as outdated.
    changed: Notify,
}

/// Settings of all members of a catalog.
#[derive(Clone)]
pub(super) struct Settings {
    /// Maximum time that a list is used without a refresh.
    pub(super) ttl_max: Duration,
    /// Maximum time that a request waits for a fetch, from the start of the fetch.
    pub(super) wait: Duration,
    pub(super) client_info: Implementation,
    pub(super) on_change: OnChange,
}

#[derive(Default)]
struct CachedList {
    /// Time of the first request for the list.
    first_request: Option<Instant>,
    last: Option<LastCopy>,
    fetch: Option<RunningFetch>,
    /// Number of times that the list was marked as outdated.
    invalidations: u64,
    /// Time of the last attempt, if this attempt failed.
    failed_at: Option<Instant>,
    /// `true` if a request got an outdated copy. If the next copy differs, clients must get a notification.
    was_outdated: bool,
    /// `true` if a request got no copy. Clients must get a notification about the next copy.
    was_missing: bool,
}

/// The last list that the member has sent.
#[derive(Clone)]
struct LastCopy {
    list: Arc<MemberList>,
    /// The copy is fresh until this time.
    stale_at: Instant,
    /// Requests get the stale copy until this time without waiting for the refresh.
    grace_end: Instant,
    /// `true` if clients may still use the copy: they may keep it for some time, and got no notification that
    /// it is outdated.
    is_in_use: bool,
}

struct RunningFetch {
    begun: Instant,
    /// Closed when the fetch has ended.
    done: watch::Receiver<()>,
}

/// A request for the list of a member.
pub(super) enum Lookup {
    /// The list. `None` if the member is missing.
    Ready(Option<Arc<MemberList>>),
    /// A fetch is running. The request waits for its end, but at most until this time.
    Waiting(watch::Receiver<()>, Instant),
}

impl MemberLists {
    pub(super) fn new(name: MemberName, source: Arc<dyn ListSource>, settings: Settings) -> Arc<Self> {
        Arc::new(Self { name, source, settings, lists: Default::default(), changed: Notify::new() })
    }

    /// Requests a list. Starts a fetch if the last copy is outdated and no fetch is running.
    pub(super) fn begin(self: &Arc<Self>, kind: ListKind) -> Lookup {
        let now = Instant::now();
        let cached = &mut *self.lock(kind);
        if let Some(fresh) = cached.copy_until(now, |copy| copy.stale_at) {
            return Lookup::Ready(Some(fresh));
        }
        self.start_if_due(kind, cached, now);
        if let Some(stale) = cached.copy_until(now, |copy| copy.grace_end) {
            cached.was_outdated = true;
            return Lookup::Ready(Some(stale));
        }
        match &cached.fetch {
            Some(fetch) if cached.is_fetching() && now < fetch.begun + self.settings.wait => {
                Lookup::Waiting(fetch.done.clone(), fetch.begun + self.settings.wait)
            }
            _ => {
                cached.was_outdated = true;
                Lookup::Ready(cached.usable(now))
            }
        }
    }

    /// Returns the list that was requested with [`begin`](Self::begin), or the last good copy. Returns `None`
    /// if the member is missing.
    pub(super) async fn finish(&self, kind: ListKind, lookup: Lookup) -> Option<Arc<MemberList>> {
        match lookup {
            Lookup::Ready(list) => list,
            Lookup::Waiting(mut done, until) => {
                // The sender only drops the channel, so `changed` returns at the end of the fetch.
                let has_ended = timeout_at(until, done.changed()).await.is_ok();
                let mut cached = self.lock(kind);
                cached.was_outdated |= !has_ended || cached.failed_at.is_some();
                cached.usable(Instant::now())
            }
        }
    }

    /// Waits until the member has sent the list for the first time. Waits at most the time `wait` of the
    /// settings, counted from the first request for the list.
    pub(super) async fn wait_for_first(self: &Arc<Self>, kind: ListKind) {
        let Some(until) = self.request_first(kind) else { return };
        let arrival = async {
            loop {
                let changed = self.changed.notified();
                if self.request_first(kind).is_none() {
                    return;
                }
                // After a failure, the next attempt follows after a pause.
                let _ = timeout(RETRY_PAUSE, changed).await;
            }
        };
        let _ = timeout_at(until, arrival).await;
    }

    /// Starts to fetch the list, unless the member has already sent it. Returns the time until which requests
    /// wait for the first list. Returns `None` if the member has already sent the list.
    pub(super) fn request_first(self: &Arc<Self>, kind: ListKind) -> Option<Instant> {
        let now = Instant::now();
        let cached = &mut *self.lock(kind);
        if cached.last.is_some() {
            return None;
        }
        self.start_if_due(kind, cached, now);
        cached.first_request.map(|first| first + self.settings.wait)
    }

    /// Returns `true` if requests no longer wait for the first list, although the member has not sent it.
    pub(super) fn is_overdue(&self, kind: ListKind) -> bool {
        let cached = self.lock(kind);
        let is_late = |first: Instant| Instant::now() >= first + self.settings.wait;
        cached.last.is_none() && cached.first_request.is_some_and(is_late)
    }

    /// Returns the last list that the member has sent, regardless of its age.
    pub(super) fn last(&self, kind: ListKind) -> Option<Arc<MemberList>> {
        self.lock(kind).last.as_ref().map(|copy| copy.list.clone())
    }

    /// Marks a list as outdated. A request after this call gets the list that the member has now.
    pub(super) fn invalidate(&self, kind: ListKind) {
        let now = Instant::now();
        let mut cached = self.lock(kind);
        cached.invalidations += 1;
        cached.failed_at = None;
        if let Some(fetch) = &mut cached.fetch {
            fetch.begun = now;
        }
        if let Some(copy) = &mut cached.last {
            copy.stale_at = copy.stale_at.min(now);
            copy.grace_end = copy.grace_end.min(now);
            copy.is_in_use = false;
        }
        drop(cached);
        self.changed.notify_waiters();
    }

    fn start_if_due(self: &Arc<Self>, kind: ListKind, cached: &mut CachedList, now: Instant) {
        cached.first_request.get_or_insert(now);
        if !cached.is_fetching() && cached.may_fetch(now) {
            self.start(kind, cached, now);
        }
    }

    fn start(self: &Arc<Self>, kind: ListKind, cached: &mut CachedList, now: Instant) {
        let (running, done) = watch::channel(());
        cached.fetch = Some(RunningFetch { begun: now, done });
        let lists = self.clone();
        tokio::spawn(async move {
            lists.fetch(kind).await;
            drop(running);
        });
    }

    /// Fetches a list. Starts again if the list changes in the meantime, because the pages may then belong to
    /// different states of the list.
    async fn fetch(&self, kind: ListKind) {
        for attempt in 1..=ATTEMPTS_MAX {
            let invalidations = self.lock(kind).invalidations;
            let fetched = timeout(FETCH_TIME_MAX, self.fetch_once(kind)).await;
            let fetched = fetched.unwrap_or(Err(McpClientError::TimedOut));
            let mut cached = self.lock(kind);
            let is_current = cached.invalidations == invalidations;
            if attempt < ATTEMPTS_MAX && (!is_current || is_invalid_cursor(&fetched)) {
                if let Some(fetch) = &mut cached.fetch {
                    fetch.begun = Instant::now();
                }
                continue;
            }
            let is_announced = match fetched {
                Ok(list) => self.store(kind, &mut cached, list, is_current),
                Err(error) => {
                    self.note_failure(kind, &mut cached, &error);
                    false
                }
            };
            cached.fetch = None;
            drop(cached);
            self.changed.notify_waiters();
            if is_announced {
                (self.settings.on_change)(kind);
            }
            return;
        }
    }

    async fn fetch_once(&self, kind: ListKind) -> Result<MemberList, McpClientError> {
        let connection = self.source.connection().await?;
        fetch_list(&connection, kind, &self.settings.client_info).await
    }

    /// Stores a new list. Returns `true` if clients must get a notification about the change.
    fn store(&self, kind: ListKind, cached: &mut CachedList, list: MemberList, is_current: bool) -> bool {
        if cached.failed_at.take().is_some() {
            tracing::info!(server = %self.name, "{} succeeds again", kind.method());
        }
        let now = Instant::now();
        let lifetime = if is_current { list.lifetime(self.settings.ttl_max) } else { Duration::ZERO };
        let is_new = cached.last.as_ref().is_none_or(|copy| !copy.list.is_same(&list));
        let was_in_use = cached.last.as_ref().is_some_and(|copy| copy.is_in_use);
        cached.last = Some(LastCopy {
            list: Arc::new(list),
            stale_at: now + lifetime,
            grace_end: now + 2 * lifetime,
            is_in_use: lifetime > Duration::ZERO,
        });
        let was_outdated = std::mem::take(&mut cached.was_outdated) || was_in_use;
        std::mem::take(&mut cached.was_missing) || (was_outdated && is_new)
    }

    fn note_failure(&self, kind: ListKind, cached: &mut CachedList, error: &McpClientError) {
        // One line for several failures in a row.
        if cached.failed_at.replace(Instant::now()).is_none() {
            let method = kind.method();
            tracing::warn!(server = %self.name, "{method} failed, using the last copy if any: {error}");
        }
    }

    fn lock(&self, kind: ListKind) -> MutexGuard<'_, CachedList> {
        self.lists[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedList {
    fn is_fetching(&self) -> bool {
        self.fetch.as_ref().is_some_and(|fetch| fetch.done.has_changed().is_ok())
    }

    fn may_fetch(&self, now: Instant) -> bool {
        self.failed_at.is_none_or(|failed_at| now >= failed_at + RETRY_PAUSE)
    }

    /// Returns the last copy, unless `end` is in the past.
    fn copy_until(&self, now: Instant, end: impl Fn(&LastCopy) -> Instant) -> Option<Arc<MemberList>> {
        self.last.as_ref().filter(|copy| now < end(copy)).map(|copy| copy.list.clone())
    }

    /// Returns the last copy, unless the copy is too old for clients.
    fn usable(&mut self, now: Instant) -> Option<Arc<MemberList>> {
        let usable = self.copy_until(now, |copy| copy.stale_at + KEPT_AFTER_FAILURE);
        self.was_missing |= usable.is_none();
        usable
    }
}

/// Returns `true` if the member does not accept a cursor that it has sent. Then the list has probably
/// changed.
fn is_invalid_cursor(fetched: &Result<MemberList, McpClientError>) -> bool {
    let error = fetched.as_ref().err().and_then(McpClientError::server_error);
    error.is_some_and(|error| error.code == ErrorCode::INVALID_PARAMS)
}

impl fmt::Debug for MemberLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberLists").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Maximum number of attempts to fetch a list that changes during the fetch.
const ATTEMPTS_MAX: u32 = 3;

/// Maximum time of an attempt to fetch a list.
const FETCH_TIME_MAX: Duration = Duration::from_mins(2);

/// Minimum time between a failure and the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Time for which clients get the last copy of a list that the gateway cannot refresh.
const KEPT_AFTER_FAILURE: Duration = Duration::from_mins(10);
