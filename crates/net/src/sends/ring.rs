//! Passes bytes to `io_uring`. This file contains all unsafe code for `io_uring`.
//!
//! The functions are synchronous: when a call returns, the kernel no longer uses the buffers.
#![expect(
    unsafe_code,
    reason = "the kernel gets pointers to buffers, and the buffers live until the kernel has finished all sends"
)]

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types::Fd};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// An `io_uring` queue, and the bytes to send.
pub(super) struct Ring {
    queue: IoUring,
    bytes: Vec<u8>,
}

/// A send operation: the socket, and the range of the bytes to send.
pub(super) struct Send<'a, S> {
    pub(super) socket: &'a S,
    pub(super) bytes: Range<usize>,
}

impl Ring {
    /// Creates a ring for at most `sends_max` sends at a time.
    ///
    /// # Errors
    /// The kernel is older than 5.18, or this process may not use `io_uring`.
    pub(super) fn new(sends_max: u32) -> io::Result<Self> {
        let queue = IoUring::builder().setup_submit_all().build(sends_max)?;
        Ok(Self { queue, bytes: Vec::new() })
    }

    /// Stores `parts` for a later send. Returns the range of the stored bytes.
    pub(super) fn keep<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]>) -> Range<usize> {
        let start = self.bytes.len();
        parts.for_each(|part| self.bytes.extend_from_slice(part));
        start..self.bytes.len()
    }

    /// Returns the stored bytes in the range `bytes`.
    pub(super) fn kept(&self, bytes: Range<usize>) -> &[u8] {
        self.bytes.get(bytes).unwrap_or_default()
    }

    /// Removes all stored bytes.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Executes `sends`. Sends only the bytes that the sockets accept without waiting. The number of sends
    /// must not exceed `sends_max`. Stores the result of each send in `outcomes`: the number of accepted
    /// bytes, or the error.
    ///
    /// # Errors
    /// The ring no longer works, and the stored bytes are lost. Sends with an unknown result get the error
    /// `CANCELED`.
    pub(super) fn send<'a, S: AsRawFd + 'a>(
        &mut self,
        sends: impl Iterator<Item = Send<'a, S>>,
        outcomes: &mut Vec<Result<usize, Errno>>,
    ) -> io::Result<()> {
        outcomes.clear();
        let flags = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits().cast_signed();
        let mut submission = self.queue.submission();
        for (n, send) in sends.enumerate() {
            let bytes = &self.bytes[send.bytes];
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(Fd(send.socket.as_raw_fd()), bytes.as_ptr(), length).flags(flags);
            outcomes.push(Err(Errno::CANCELED));
            // SAFETY: the bytes stay at their address until `wait` has seen the end of every send. If
            // `wait` fails, the bytes are leaked. The sockets stay open, because `sends` borrows them.
            let pushed = unsafe { submission.push(&entry.build().user_data(n as u64)) };
            debug_assert!(pushed.is_ok(), "the ring has space for the whole batch");
        }
        drop(submission);
        self.wait(outcomes).inspect_err(|_| {
            // The kernel may still read the bytes, so they must never be freed.
            std::mem::take(&mut self.bytes).leak();
        })
    }

    /// Replaces the descriptor of the ring, so that the kernel refuses all later submissions.
    #[cfg(test)]
    pub(super) fn break_down(&self) {
        use std::mem::ManuallyDrop;
        use std::os::fd::{FromRawFd, OwnedFd};

        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is open as long as the queue exists, and the queue closes the descriptor.
        // This function replaces the descriptor, and never drops it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(self.queue.as_raw_fd()) };
        rustix::io::dup2(null, &mut ManuallyDrop::new(descriptor)).unwrap();
    }

    /// Submits all queued sends, and waits until all of them have ended.
    fn wait(&mut self, outcomes: &mut [Result<usize, Errno>]) -> io::Result<()> {
        let mut left = outcomes.len();
        while left > 0 {
            match self.queue.submit_and_wait(left) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for completion in self.queue.completion() {
                let outcome = completion.result();
                let Some(slot) =
                    usize::try_from(completion.user_data()).ok().and_then(|n| outcomes.get_mut(n))
                else {
                    continue;
                };
                *slot = usize::try_from(outcome).map_err(|_| Errno::from_raw_os_error(-outcome));
                left -= 1;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
