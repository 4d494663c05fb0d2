//! Watches a running task until it ends, and stores its result.

use std::sync::{Arc, Weak};
use std::time::Duration;

use thruway_mcp::schema::methods;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::archive::ArchiveFuture;
use super::record::{Polled, TaskRecord};
use super::task_store::{TaskStore, Watched};

/// Asks the member of a task in the name of the caller.
pub(in crate::federation) trait AskTask: Send + Sync + 'static {
    /// Returns the answer to a request about the task `id`. Returns `None` if the session of the task or the
    /// gateway has ended.
    fn ask<'a>(&'a self, method: &'static str, id: &'a str) -> ArchiveFuture<'a, Option<Vec<u8>>>;

    /// Returns the member's own id of the task `id`, if the task continues at the member after this gateway has ended.
    fn own_id(&self, id: &str) -> Option<String>;
}

/// A running task.
pub(super) struct TaskWatch {
    pub(super) store: Weak<TaskStore>,
    pub(super) record: TaskRecord,
    pub(super) source: Arc<dyn AskTask>,
    pub(super) watched: Arc<Watched>,
    /// The end of the lifetime of the task.
    pub(super) until: Instant,
    /// `true` if the archive contains the current record.
    pub(super) is_stored: bool,
}

impl TaskWatch {
    /// Stores the task, and polls it until it ends or its lifetime is over. Drops `stored` after the first attempt to
    /// store the task.
    pub(super) async fn run(mut self, stored: oneshot::Sender<()>) {
        let until = self.until;
        self.store().await;
        drop(stored);
        // The error only means that the lifetime is over.
        let _ = timeout_at(until, self.follow()).await;
        if let Some(store) = self.store.upgrade() {
            store.forget(&self.record.id);
        }
    }

    async fn follow(&mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                () = self.watched.changed.notified() => {}
            }
            if self.store.strong_count() == 0 {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
            if self.poll().await {
                break;
            }
            if !self.is_stored {
                self.store().await;
            }
        }
        // A client must find the result, so wait until the store works again.
        let mut pause = FIRST_PAUSE;
        while !self.store().await {
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// Requests the state of the task. Returns `true` if the task has ended.
    async fn poll(&mut self) -> bool {
        let Some(answer) = self.source.ask(methods::TASKS_GET, &self.record.id).await else {
            self.record.release("the session of the task has ended");
            return true;
        };
        match self.record.poll(&answer) {
            Polled::Over => {
                if !self.record.is_modern
                    && let Some(result) = self.source.ask(methods::TASKS_RESULT, &self.record.id).await
                {
                    self.record.take_result(&result);
                }
                true
            }
            Polled::Lost => {
                self.record.fail("the task is lost: its server process has exited");
                true
            }
            Polled::Changed => {
                self.is_stored = false;
                false
            }
            Polled::Same | Polled::Unknown => false,
        }
    }

    /// Stores the record. Returns `true` if the archive contains it, or if there is no archive anymore.
    async fn store(&mut self) -> bool {
        let Some(store) = self.store.upgrade() else { return true };
        let left = self.until.saturating_duration_since(Instant::now()).max(TTL_LEFT_MIN);
        self.is_stored = store.put(&self.record, left).await;
        self.is_stored
    }
}

/// Pause before the first request for the state of a task. The pause doubles with each request.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Maximum pause between two requests for the state.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Maximum pause between two attempts to store the result.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Minimum lifetime of a record.
const TTL_LEFT_MIN: Duration = Duration::from_secs(1);
