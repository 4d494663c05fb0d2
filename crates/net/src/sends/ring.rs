//! The one place that hands octets to `io_uring`.
//!
//! It is synchronous: when a call returns, the kernel is done with what it was lent.
#![expect(
    unsafe_code,
    reason = "the kernel is told addresses; they outlive the call, which waits for all that it submits"
)]

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types::Fd};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// A queue to the kernel, and the octets that it is lent.
pub(super) struct Ring {
    queue: IoUring,
    octets: Vec<u8>,
}

/// Octets of a ring, and the socket that they are for.
pub(super) struct Send<'a, S> {
    pub(super) socket: &'a S,
    pub(super) octets: Range<usize>,
}

impl Ring {
    /// A ring for so many sends at a time.
    ///
    /// # Errors
    /// The kernel has none (before 5.18), or this process may not have one.
    pub(super) fn new(sends_max: u32) -> io::Result<Self> {
        let queue = IoUring::builder().setup_submit_all().build(sends_max)?;
        Ok(Self { queue, octets: Vec::new() })
    }

    /// Keeps `parts` to be sent; where they stand.
    pub(super) fn keep<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]>) -> Range<usize> {
        let start = self.octets.len();
        parts.for_each(|part| self.octets.extend_from_slice(part));
        start..self.octets.len()
    }

    /// What is kept there.
    pub(super) fn kept(&self, octets: Range<usize>) -> &[u8] {
        self.octets.get(octets).unwrap_or_default()
    }

    /// Forgets all that was kept.
    pub(super) fn clear(&mut self) {
        self.octets.clear();
    }

    /// Sends all of `sends`, of which there may be no more than the ring was made for, as far as the sockets
    /// take it without waiting. What became of each stands in `outcomes`: how many octets were taken, or why
    /// none.
    ///
    /// # Errors
    /// The ring does not work any more, and nothing is kept; sends of which nobody knows what became count as
    /// cancelled.
    pub(super) fn send<'a, S: AsRawFd + 'a>(
        &mut self,
        sends: impl Iterator<Item = Send<'a, S>>,
        outcomes: &mut Vec<Result<usize, Errno>>,
    ) -> io::Result<()> {
        outcomes.clear();
        let flags = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits().cast_signed();
        let mut submission = self.queue.submission();
        for (n, send) in sends.enumerate() {
            let octets = &self.octets[send.octets];
            let length = u32::try_from(octets.len()).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(Fd(send.socket.as_raw_fd()), octets.as_ptr(), length).flags(flags);
            outcomes.push(Err(Errno::CANCELED));
            // SAFETY: the octets stay where they are until `wait` has seen the end of every send, or are
            // leaked; the sockets are open, because they are borrowed by whoever calls.
            let pushed = unsafe { submission.push(&entry.build().user_data(n as u64)) };
            debug_assert!(pushed.is_ok(), "the ring is as long as the batch");
        }
        drop(submission);
        self.wait(outcomes).inspect_err(|_| {
            // The kernel may still be reading them.
            std::mem::take(&mut self.octets).leak();
        })
    }

    /// Has the kernel refuse what is submitted from now on: behind the descriptor of the ring there is none
    /// any more.
    #[cfg(test)]
    pub(super) fn break_down(&self) {
        use std::mem::ManuallyDrop;
        use std::os::fd::{FromRawFd, OwnedFd};

        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is open as long as the queue, which closes it: here it is only replaced, and
        // never dropped.
        let descriptor = unsafe { OwnedFd::from_raw_fd(self.queue.as_raw_fd()) };
        rustix::io::dup2(null, &mut ManuallyDrop::new(descriptor)).unwrap();
    }

    /// Submits what was pushed, and waits for the end of all of it.
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
        f.debug_struct("Ring").field("octets", &self.octets.len()).finish_non_exhaustive()
    }
}
