//! Signals that operators send to the process. The caller uses a separate thread to wait for each kind of
//! signal.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGTERM and SIGINT, which request the end of a process. After [`take_over`](Self::take_over),
/// these signals no longer end the process.
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

/// Receives SIGHUP, which requests a reload of the config. After [`take_over`](Self::take_over), SIGHUP no
/// longer ends the process.
pub struct ReloadSignal(Awaited);

/// Receives SIGUSR1, which requests that the process reopens its log files. After
/// [`take_over`](Self::take_over), SIGUSR1 no longer ends the process.
pub struct ReopenSignal(Awaited);

impl TerminationSignals {
    /// Installs handlers for both signals.
    ///
    /// # Errors
    /// The operating system refuses the signal handlers.
    pub fn take_over() -> io::Result<Self> {
        Awaited::take_over(&[SignalKind::terminate(), SignalKind::interrupt()]).map(Self)
    }

    /// Blocks the thread until one of the two signals arrives.
    pub fn wait(&mut self) {
        self.0.wait();
    }
}

impl ReloadSignal {
    /// Installs a handler for the signal.
    ///
    /// # Errors
    /// The operating system refuses the signal handler.
    pub fn take_over() -> io::Result<Self> {
        Awaited::take_over(&[SignalKind::hangup()]).map(Self)
    }

    /// Blocks until the signal arrives.
    pub fn wait(&mut self) {
        self.0.wait();
    }
}

impl ReopenSignal {
    /// Installs a handler for the signal.
    ///
    /// # Errors
    /// The operating system refuses the signal handler.
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
            // Polls all signals, because only polled signals wake this thread.
            let arrived = signals.iter_mut().filter_map(|signal| match signal.poll_recv(cx) {
                Poll::Ready(_) => Some(()),
                Poll::Pending => None,
            });
            if arrived.count() > 0 { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}
