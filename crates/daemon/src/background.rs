//! An event loop in a separate thread.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// An event loop in a separate thread. The thread ends when this value is dropped.
pub(crate) struct Background {
    handle: Handle,
    /// Dropping the sender ends the thread.
    _end: oneshot::Sender<()>,
}

impl Background {
    /// Starts the thread `name`.
    ///
    /// # Errors
    /// The system refuses the resources for the thread or for its event loop.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end_sender, end) = oneshot::channel::<()>();
        let run = move || {
            // The channel never carries a value: the wait ends when the sender is dropped.
            let _ = runtime.block_on(end);
            runtime.shutdown_background();
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { handle, _end: end_sender })
    }

    /// Returns the event loop.
    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Calls `f` in the context of the event loop, so that `f` can start tasks in the event loop.
    pub(crate) fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        let _context = self.handle.enter();
        f()
    }

    /// Runs `task` in the thread. The thread continues at least until the end of the task.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let background = self.clone();
        let task = async move {
            task.await;
            drop(background);
        };
        self.handle.spawn(task);
    }

    /// Runs `task`, and waits for its end. Do not call this function in an asynchronous task.
    pub(crate) fn wait_for(&self, task: impl Future<Output = ()>) {
        self.handle.block_on(task);
    }
}
