//! Signals to the process. A dedicated thread waits for each kind.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, which ask a process to end. While this value exists, these signals do not end the
/// process.
///
/// ```no_run
/// use thruway_net::TerminationSignals;
///
/// let mut signals = TerminationSignals::take_over()?;
/// signals.wait();
/// println!("shutting down");
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct TerminationSignals(Awaited);

/// SIGHUP, which asks a process to reload its config. While this value exists, SIGHUP does not end the
/// process.
pub struct ReloadSignal(Awaited);

/// SIGUSR1, which asks a process to reopen its logs. While this value exists, SIGUSR1 does not end the
/// process.
pub struct ReopenSignal(Awaited);

impl TerminationSignals {
    /// Takes over the handling of the two signals.
    ///
    /// # Errors
    /// The system refuses the signal handlers.
    pub fn take_over() -> io::Result<Self> {
        Awaited::take_over(&[SignalKind::terminate(), SignalKind::interrupt()]).map(Self)
    }

    /// Blocks until one of the two signals arrives.
    pub fn wait(&mut self) {
        self.0.wait();
    }
}

impl ReloadSignal {
    /// Takes over the handling of the signal.
    ///
    /// # Errors
    /// The system refuses the signal handler.
    pub fn take_over() -> io::Result<Self> {
        Awaited::take_over(&[SignalKind::hangup()]).map(Self)
    }

    /// Blocks until the signal arrives.
    pub fn wait(&mut self) {
        self.0.wait();
    }
}

impl ReopenSignal {
    /// Takes over the handling of the signal.
    ///
    /// # Errors
    /// The system refuses the signal handler.
    pub fn take_over() -> io::Result<Self> {
        Awaited::take_over(&[SignalKind::user_defined1()]).map(Self)
    }

    /// Blocks until the signal arrives.
    pub fn wait(&mut self) {
        self.0.wait();
    }
}

struct Awaited {
    runtime: Runtime,
    signals: Vec<Signal>,
}

impl Awaited {
    fn take_over(kinds: &[SignalKind]) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let guard = runtime.enter();
        let signals = kinds.iter().map(|kind| signal(*kind)).collect::<io::Result<_>>()?;
        drop(guard);
        Ok(Self { runtime, signals })
    }

    fn wait(&mut self) {
        let Self { runtime, signals } = self;
        runtime.block_on(poll_fn(|cx| {
            // Every signal must be polled; otherwise its arrival does not wake this thread.
            let arrived = signals.iter_mut().filter_map(|signal| match signal.poll_recv(cx) {
                Poll::Ready(_) => Some(()),
                Poll::Pending => None,
            });
            if arrived.count() > 0 { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}
