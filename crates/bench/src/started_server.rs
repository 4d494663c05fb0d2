//! Starts servers for a load, and ends these servers and their process groups after the load.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use crate::plan::reachable_address;
use crate::stop::StopFlag;

/// A running server in a separate process group. Dropping this value ends all processes of the group.
#[derive(Debug)]
pub struct StartedServer {
    child: Child,
    command: String,
    groups: ProcessGroups,
    grace: Duration,
}

/// Reason why a server cannot be used.
#[derive(Debug)]
pub enum StartError {
    /// The command of the server has ended.
    Ended(String, ExitStatus),
    /// The command of the server does not listen at the address.
    NotListening(String, UpstreamAddr),
    /// The system could not start the command of the server.
    NotStarted(String, io::Error),
}

/// The process groups that this process has started, and that must not outlive this process. All clones
/// share the same list.
#[derive(Clone, Debug, Default)]
pub struct ProcessGroups(Arc<Mutex<Vec<Pid>>>);

/// Prevents the start of further process groups while this value exists.
#[derive(Debug)]
pub struct KilledGroups<'a>(#[expect(dead_code, reason = "the lock is only held")] MutexGuard<'a, Vec<Pid>>);

impl StartedServer {
    /// Starts `command` with the shell.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    pub fn start(command: &str, groups: &ProcessGroups) -> Result<Self, StartError> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}"));
        Self::of(&mut shell, command, groups, GRACE)
    }

    /// Starts a command. Error messages refer to the command by `name`. When the returned value is dropped,
    /// the command gets SIGTERM. If the command does not end within `grace`, it is killed.
    ///
    /// # Errors
    /// Returns an error if the command cannot be started.
    pub fn of(
        command: &mut Command,
        name: &str,
        groups: &ProcessGroups,
        grace: Duration,
    ) -> Result<Self, StartError> {
        // The output of the server must not mix with the report.
        let child = groups.start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        let child = child.map_err(|error| StartError::NotStarted(name.to_owned(), error))?;
        Ok(Self { child, command: name.to_owned(), groups: groups.clone(), grace })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status, if the server has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Checks that the server is running.
    ///
    /// # Errors
    /// Returns an error if the server has ended.
    pub fn still_runs(&mut self) -> Result<(), StartError> {
        match self.status() {
            Some(status) => Err(StartError::Ended(self.command.clone(), status)),
            None => Ok(()),
        }
    }

    /// Waits until the server listens at one of `addresses`, and returns this address. Gives up after 20
    /// seconds, or when the caller stops the load.
    ///
    /// # Errors
    /// Returns an error if the server has ended or does not listen.
    pub fn wait_until_ready(
        &mut self,
        addresses: &[UpstreamAddr],
        stop: &StopFlag,
    ) -> Result<UpstreamAddr, StartError> {
        let end = Clock::system().now() + START_TIMEOUT;
        loop {
            self.still_runs()?;
            match reachable_address(addresses) {
                Ok(reached) => return Ok(reached),
                Err(_) if !stop.is_set() && Clock::system().now() < end => sleep(PAUSE),
                Err(_) => return Err(StartError::NotListening(self.command.clone(), addresses[0].clone())),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // Ignores the error, because an error means that the group has already ended.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    fn has_ended_within(&mut self, time: Duration) -> io::Result<bool> {
        let end = Clock::system().now() + time;
        while self.child.try_wait()?.is_none() {
            if Clock::system().now() >= end {
                return Ok(false);
            }
            sleep(PAUSE);
        }
        Ok(true)
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        if !self.has_ended_within(self.grace).unwrap_or(false) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
        self.groups.forget(self.child.id());
    }
}

impl ProcessGroups {
    /// Starts a process in a new process group, and adds the group to the list.
    ///
    /// # Errors
    /// Returns an error if the system cannot start the process.
    pub fn start(&self, command: &mut Command) -> io::Result<Child> {
        // The lock makes a concurrent call of `kill` wait until the new group is in the list.
        let mut groups = self.lock();
        let child = command.process_group(0).spawn()?;
        groups.push(Pid::from_child(&child));
        Ok(child)
    }

    /// Adds the process group of a process that was started by other code. `id` is the process id of the
    /// group leader.
    pub fn add(&self, id: u32) {
        self.lock().extend(i32::try_from(id).ok().and_then(Pid::from_raw));
    }

    /// Removes the group of a process that has ended, because the system may reuse the process id.
    pub fn forget(&self, id: u32) {
        self.lock().retain(|group| group.as_raw_nonzero().get().unsigned_abs() != id);
    }

    /// Kills all process groups. No process can be started while the returned value exists.
    pub fn kill(&self) -> KilledGroups<'_> {
        let groups = self.lock();
        for group in groups.iter() {
            // Ignores the error, because an error means that the group has already ended.
            let _ = kill_process_group(*group, Signal::KILL);
        }
        KilledGroups(groups)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StartError {
    /// Returns the next step for the user of `thruway bench`, if there is one.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotListening(..) => Some(
                "the command must stay in the foreground, and listen on the address of the URL before it",
            ),
            Self::Ended(..) | Self::NotStarted(..) => None,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(command, status) => write!(f, "`{command}` has ended: {status}"),
            Self::NotListening(command, address) => write!(f, "`{command}` does not listen on {address}"),
            Self::NotStarted(command, error) => write!(f, "cannot start `{command}`: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

const START_TIMEOUT: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_registered_process_groups_are_killed() {
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
