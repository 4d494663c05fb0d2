//! The background thread of the process, which runs the health checks and DNS lookups of all upstreams.
//!
//! All workers share the result of a DNS lookup or a health check. On a separate thread, lookups and checks
//! do not delay the responses of the workers. A task has only a weak reference to its upstream. It ends after
//! the upstream is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A function that creates a task on the background thread.
type Start = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

static TASKS: LazyLock<Mutex<UnboundedSender<Start>>> = LazyLock::new(|| {
    let (sender, receiver) = unbounded_channel();
    if let Err(error) = thread::Builder::new().name("upkeep".to_owned()).spawn(|| run(receiver)) {
        tracing::error!(%error, "cannot start the thread for health checks and DNS lookups");
    }
    Mutex::new(sender)
});

/// Runs the task that `start` creates on the background thread.
pub(crate) fn spawn<F: Future<Output = ()> + 'static>(start: impl FnOnce() -> F + Send + 'static) {
    let start: Start = Box::new(|| Box::pin(start()));
    let tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    // Sending fails if the thread could not start. In this case, the log contains the error, and no
    // background task runs.
    let _ = tasks.send(start);
}

fn run(mut tasks: UnboundedReceiver<Start>) {
    let runtime = match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            return tracing::error!(%error, "cannot start the runtime for health checks and DNS lookups");
        }
    };
    runtime.block_on(async {
        while let Some(start) = tasks.recv().await {
            drop(tokio::task::spawn_local(start()));
        }
    });
}
