//! Caches small documents from other servers, such as key sets. The cache fetches a document again when
//! the document is no longer fresh, or when a caller does not find an entry in the document.
//!
//! ```text
//!               for a while              asked for, or old
//! Fetching ─▶ Pausing ────────▶ Waiting ─────────────────▶ Fetching
//! ```
//! A separate thread with a tokio runtime fetches each document. Therefore any thread can read a document
//! without waiting. If a fetch fails, the previous document stays in use until its age is
//! [`DocumentConfig::age_max`].

mod config;
mod fetch;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use thruway_net::Clock;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::timeout;

pub use config::{DocumentConfig, DocumentUrl, InvalidDocumentUrl};
use fetch::Source;

/// A document that is fetched from a URL and cached in parsed form. Clones share the document. The
/// fetches stop when the last clone is dropped.
///
/// ```no_run
/// use thruway_client::{DocumentConfig, KeptDocument};
///
/// let config = DocumentConfig::new("https://a.example/keys").expect("the URL is valid");
/// let document = KeptDocument::start(config, |body| std::str::from_utf8(body).map(str::to_owned));
/// // `None` until the first fetch has succeeded.
/// println!("{:?}", document.read(String::len));
/// ```
pub struct KeptDocument<T> {
    shared: Arc<Shared<T>>,
}

/// A parsed document and the time of its fetch, for [`KeptDocument::start_with`]. Clones share the
/// document.
pub struct FetchedDocument<T>(Arc<Fetched<T>>);

struct Fetched<T> {
    value: T,
    /// Start of the fetch, as a time of the monotonic clock.
    at: Duration,
}

struct Shared<T> {
    fetched: ArcSwapOption<Fetched<T>>,
    age_max: Duration,
    stage: watch::Sender<Stage>,
}

/// The current activity, and the number of finished fetches.
#[derive(Clone, Copy)]
struct Stage {
    state: State,
    fetches: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A caller has requested a fetch.
    Asked,
    /// A fetch is running.
    Fetching,
    /// The last fetch ended less than [`DocumentConfig::refresh_interval_min`] ago, so no fetch may start.
    Pausing,
    /// The next fetch starts when a caller requests it, or when the document is no longer fresh.
    Waiting,
}

impl<T> Shared<T> {
    /// Returns the result of `look` on the document, or `None` if no document exists or the document is
    /// too old at the time `now`.
    fn read_at<R>(&self, now: Duration, look: impl FnOnce(&T) -> R) -> Option<R> {
        let fetched = self.fetched.load();
        let usable = fetched.as_deref().filter(|fetched| now.saturating_sub(fetched.at) < self.age_max);
        usable.map(|fetched| look(&fetched.value))
    }

    /// Records that a fetch ended without a document. The next fetch starts after the minimum interval.
    fn start_pause(&self) {
        let pause = |stage: &mut Stage| {
            *stage = Stage { state: State::Pausing, fetches: stage.fetches.wrapping_add(1) }
        };
        self.stage.send_modify(pause);
    }
}

impl<T: Send + Sync + 'static> KeptDocument<T> {
    /// Starts to fetch the document. `read` parses the body, or returns the reason that the body is
    /// unusable.
    pub fn start<E: fmt::Display>(
        config: DocumentConfig,
        read: impl Fn(&[u8]) -> Result<T, E> + Send + 'static,
    ) -> Self {
        Self::start_with(config, None, read)
    }

    /// Starts to fetch the document, and uses `known` until the first fetch succeeds. The age of `known`
    /// still counts from the fetch of `known`.
    pub fn start_with<E: fmt::Display>(
        config: DocumentConfig,
        known: Option<FetchedDocument<T>>,
        read: impl Fn(&[u8]) -> Result<T, E> + Send + 'static,
    ) -> Self {
        let keeper = thread::Builder::new().name("documents".to_owned());
        Self::begin(config, known, read, |run| keeper.spawn(run).map(drop))
    }

    /// Starts to fetch the document on the thread that `spawn` creates.
    fn begin<E: fmt::Display>(
        config: DocumentConfig,
        known: Option<FetchedDocument<T>>,
        read: impl Fn(&[u8]) -> Result<T, E> + Send + 'static,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<()>,
    ) -> Self {
        let (stage, receiver) = watch::channel(Stage { state: State::Fetching, fetches: 0 });
        let fetched = ArcSwapOption::new(known.map(|known| known.0));
        let shared = Arc::new(Shared { fetched, age_max: config.age_max, stage });
        let weak = Arc::downgrade(&shared);
        if let Err(error) = spawn(Box::new(move || run(weak, receiver, &Source::new(config), &read))) {
            tracing::error!("cannot start the thread that fetches documents: {error}");
            shared.start_pause();
        }
        Self { shared }
    }
}

impl<T> KeptDocument<T> {
    /// Returns the result of `look` on the document. Returns `None` before the first fetch succeeds, and
    /// when the document is older than [`DocumentConfig::age_max`].
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.shared.read_at(Clock::system().now(), look)
    }

    /// Returns the most recently fetched document, regardless of its age. Returns `None` before the first
    /// fetch succeeds.
    pub fn fetched(&self) -> Option<FetchedDocument<T>> {
        self.shared.fetched.load_full().map(FetchedDocument)
    }

    /// Requests a fetch. Call this function if an entry is missing in the document. The future completes
    /// when the fetch has succeeded or failed. Returns `None` if the last fetch ended less than
    /// [`DocumentConfig::refresh_interval_min`] ago.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the fetch.
    pub fn refreshed(&self) -> Option<impl Future<Output = ()> + Send + use<T>> {
        let mut stages = self.shared.stage.subscribe();
        let mut missed = None;
        self.shared.stage.send_if_modified(|stage| {
            missed = (stage.state != State::Pausing).then_some(stage.fetches);
            let is_waiting = stage.state == State::Waiting;
            if is_waiting {
                stage.state = State::Asked;
            }
            is_waiting
        });
        let missed = missed?;
        Some(async move {
            // The wait also ends when the last clone of the document is dropped.
            let _ended = stages.wait_for(|stage| stage.fetches > missed).await;
        })
    }
}

/// Fetches the document repeatedly, until the last clone of the document is dropped.
fn run<T, E: fmt::Display>(
    shared: Weak<Shared<T>>,
    stages: watch::Receiver<Stage>,
    source: &Source,
    read: &dyn Fn(&[u8]) -> Result<T, E>,
) {
    let build = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Some(runtime) = runtime(&shared, source.config.refresh_interval_min, build) {
        runtime.block_on(keep(shared, stages, source, read));
    }
}

/// Creates a runtime with `build`. If `build` fails, for example because no file descriptors are free,
/// wakes the waiting tasks and tries again later. Returns `None` when the last clone of the document is
/// dropped.
fn runtime<T>(
    shared: &Weak<Shared<T>>,
    refresh_interval_min: Duration,
    mut build: impl FnMut() -> io::Result<Runtime>,
) -> Option<Runtime> {
    loop {
        match build() {
            Ok(runtime) => return Some(runtime),
            Err(error) => {
                tracing::error!("cannot create the runtime that fetches documents, retrying: {error}");
            }
        }
        shared.upgrade()?.start_pause();
        thread::sleep(refresh_interval_min);
    }
}

async fn keep<T, E: fmt::Display>(
    weak: Weak<Shared<T>>,
    mut stages: watch::Receiver<Stage>,
    source: &Source,
    read: &dyn Fn(&[u8]) -> Result<T, E>,
) {
    loop {
        let at = Clock::system().now();
        let fetched = source.fetch(read).await;
        let Some(shared) = weak.upgrade() else { return };
        let fresh_for = match fetched {
            Ok((value, fresh_for)) => {
                shared.fetched.store(Some(Arc::new(Fetched { value, at })));
                fresh_for
            }
            Err(error) => {
                let url = source.config.url.as_str();
                match shared.read_at(Clock::system().now(), |_| ()) {
                    Some(()) => {
                        tracing::warn!("fetching `{url}` failed, keeping the previous document: {error}");
                    }
                    None => {
                        tracing::warn!("fetching `{url}` failed, and no usable document is left: {error}");
                    }
                }
                Duration::ZERO
            }
        };
        shared.stage.send_modify(|stage| {
            *stage = Stage { state: State::Pausing, fetches: stage.fetches.wrapping_add(1) };
        });
        drop(shared);
        if !is_due(&weak, &mut stages, source.config.refresh_interval_min, fresh_for).await {
            return;
        }
    }
}

/// Waits until the document must be fetched again. Returns `false` when the last clone of the document is
/// dropped.
async fn is_due<T>(
    weak: &Weak<Shared<T>>,
    stages: &mut watch::Receiver<Stage>,
    refresh_interval_min: Duration,
    fresh_for: Duration,
) -> bool {
    if timeout(refresh_interval_min, stages.wait_for(|_| false)).await.is_ok() || !enter(weak, State::Waiting)
    {
        return false;
    }
    let asked = stages.wait_for(|stage| stage.state == State::Asked);
    let is_forgotten = timeout(fresh_for.saturating_sub(refresh_interval_min), asked)
        .await
        .is_ok_and(|asked| asked.is_err());
    !is_forgotten && enter(weak, State::Fetching)
}

/// Sets the current state to `state`. Returns `false` if the last clone of the document was dropped.
fn enter<T>(weak: &Weak<Shared<T>>, state: State) -> bool {
    let shared = weak.upgrade();
    if let Some(shared) = &shared {
        shared.stage.send_modify(|stage| stage.state = state);
    }
    shared.is_some()
}

impl<T> Clone for FetchedDocument<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for FetchedDocument<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchedDocument").field("at", &self.0.at).finish_non_exhaustive()
    }
}

impl<T> Clone for KeptDocument<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for KeptDocument<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fetches = self.shared.stage.borrow().fetches;
        f.debug_struct("KeptDocument").field("fetches", &fetches).finish_non_exhaustive()
    }
}
