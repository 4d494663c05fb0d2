//! The signals that ask a process to end.

use std::io;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM and SIGINT, on a thread that does nothing else. While this exists, neither ends the process.
pub struct TerminationSignals {
    runtime: runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl TerminationSignals {
    /// Takes over the handling of the two signals.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub fn take_over() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let guard = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        drop(guard);
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Blocks until the next of the two arrives.
    pub fn wait(&mut self) {
        let Self { runtime, terminate, interrupt } = self;
        runtime.block_on(async {
            std::future::poll_fn(|cx| {
                let has_arrived = terminate.poll_recv(cx).is_ready() | interrupt.poll_recv(cx).is_ready();
                if has_arrived { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
        });
    }
}
