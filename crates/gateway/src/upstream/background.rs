//! The one thread of the process that looks after upstreams beside the requests.
//!
//! Workers have requests to answer, and what is looked up or asked once is enough for all of them. A task
//! here holds what it looks after weakly, and ends when that is gone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Makes a task, on the thread that is to drive it.
type Start = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

static TASKS: LazyLock<Mutex<UnboundedSender<Start>>> = LazyLock::new(|| {
    let (sender, receiver) = unbounded_channel();
    if let Err(error) = thread::Builder::new().name("upkeep".to_owned()).spawn(|| run(receiver)) {
        tracing::error!(%error, "cannot start the thread for health checks and DNS lookups");
    }
    Mutex::new(sender)
});

/// Runs the task that `start` makes until it ends.
pub(crate) fn spawn<F: Future<Output = ()> + 'static>(start: impl FnOnce() -> F + Send + 'static) {
    let start: Start = Box::new(|| Box::pin(start()));
    let tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    // Without the thread, which was logged, nothing is looked after.
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
