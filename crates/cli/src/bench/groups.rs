//! Processes that were started here and must not outlive this one, however it ends.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// The groups that such processes lead. Clones are one and the same.
#[derive(Clone, Default)]
pub(super) struct ProcessGroups(Arc<Mutex<Vec<Pid>>>);

/// None is started while this exists.
pub(super) struct Ended<'a>(
    #[expect(dead_code, reason = "it is held, not looked at")] MutexGuard<'a, Vec<Pid>>,
);

impl ProcessGroups {
    /// Starts a process that leads a group of its own.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<Child> {
        // Whoever ends all of them waits until this one is known.
        let mut groups = self.lock();
        let child = command.process_group(0).spawn()?;
        groups.push(Pid::from_child(&child));
        Ok(child)
    }

    /// Knows a process from now on that was started elsewhere, and leads a group.
    pub(super) fn add(&self, id: u32) {
        self.lock().extend(i32::try_from(id).ok().and_then(Pid::from_raw));
    }

    /// The process has ended, and its number may be another's soon.
    pub(super) fn forget(&self, id: u32) {
        self.lock().retain(|group| group.as_raw_nonzero().get().unsigned_abs() != id);
    }

    /// Kills all of them; no other is started for as long as what is returned exists.
    pub(super) fn kill(&self) -> Ended<'_> {
        let groups = self.lock();
        for group in groups.iter() {
            // A group that has ended needs no signal.
            let _ = kill_process_group(*group, Signal::KILL);
        }
        Ended(groups)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_were_not_forgotten_are_killed() {
        let groups = ProcessGroups::default();
        let start = || groups.start(Command::new("sleep").arg("60")).unwrap();
        let (mut killed, mut forgotten) = (start(), start());
        groups.forget(forgotten.id());
        drop(groups.kill());
        assert!(!killed.wait().unwrap().success());
        assert_eq!(forgotten.try_wait().unwrap(), None);
        groups.add(forgotten.id());
        drop(groups.kill());
        assert!(!forgotten.wait().unwrap().success());
    }
}
