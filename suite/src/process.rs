//! Runs programs to their end or over pipes, and reads resource usage and limits from the kernel.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio, exit};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, waitid};
use thruway_bench::{ProcessGroups, StopFlag, cpu_of_ended, usage};
use thruway_net::{Clock, TerminationSignals};

/// Runs programs in process groups, which end with the suite.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    pub(crate) groups: &'a ProcessGroups,
    pub(crate) stop: &'a StopFlag,
}

/// The results of a program that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) cpu: Duration,
    /// Standard output and standard error together.
    pub(crate) printed: String,
}

impl Runner<'_> {
    /// Runs a command to its end. Kills the command after `limit`.
    pub(crate) fn end_of(self, command: &mut Command, limit: Duration) -> anyhow::Result<Ended> {
        let printed = tempfile::NamedTempFile::new()?;
        let output = || File::options().append(true).open(printed.path());
        command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        let mut child = self.groups.start(command)?;
        let (id, pid) = (child.id(), Pid::from_child(&child));
        let cpu = self.guarded(id, limit, || {
            // The child stays in the process table until its CPU time is known.
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
            cpu_of_ended(id).context("cannot read the CPU time")
        });
        let status = child.wait();
        self.groups.forget(id);
        let printed = fs::read(printed.path())?;
        Ok(Ended { cpu: cpu?, status: status?, printed: String::from_utf8_lossy(&printed).into_owned() })
    }

    /// Runs a command that must succeed, such as a compiler.
    pub(crate) fn run(self, command: &mut Command, limit: Duration) -> anyhow::Result<()> {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        let command_line = format!("{} {}", command.get_program().to_string_lossy(), arguments.join(" "));
        let ended = self.end_of(command, limit).with_context(|| format!("`{command_line}` failed"))?;
        if !ended.status.success() {
            let lines: Vec<_> = ended.printed.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
            bail!("`{command_line}` ended with {}\n{tail}", ended.status);
        }
        Ok(())
    }

    /// Runs `work`, which waits for a child. Kills the child's process group after `limit` or when the suite
    /// must stop, so that `work` returns.
    pub(crate) fn guarded<T>(
        self,
        child: u32,
        limit: Duration,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (done, is_done) = channel::<()>();
        let end = Clock::system().now_exact() + limit;
        let kills = move || {
            let clock = Clock::system();
            while is_done.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if self.stop.is_set() || clock.now_exact() > end {
                    let group = i32::try_from(child).ok().and_then(Pid::from_raw);
                    // The group may have ended already.
                    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                    return true;
                }
            }
            false
        };
        thread::scope(|scope| {
            let kills = scope.spawn(kills);
            let result = work();
            drop(done);
            match kills.join() {
                Ok(true) if self.stop.is_set() => bail!("interrupted"),
                Ok(true) => bail!("the program did not end in time"),
                _ => result,
            }
        })
    }
}

/// A child process with pipes. Dropping this value kills the child.
pub(crate) struct PipedChild {
    child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    groups: ProcessGroups,
}

impl PipedChild {
    pub(crate) fn start(command: &mut Command, runner: Runner<'_>) -> anyhow::Result<Self> {
        let groups = runner.groups.clone();
        let mut child = groups.start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (input, output) =
            child.stdin.take().zip(child.stdout.take()).context("the child has no pipes")?;
        Ok(Self { child, input, output, groups })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status, if the child has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for PipedChild {
    fn drop(&mut self) {
        // The child has no work to finish, and may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.groups.forget(self.id());
    }
}

/// Returns a flag that the first signal sets. A second signal kills the processes in `started`, and exits
/// with `code`.
pub(crate) fn stop_flag(started: &ProcessGroups, code: u8) -> anyhow::Result<StopFlag> {
    let mut signals = TerminationSignals::take_over().context("cannot handle signals")?;
    let (stop, started) = (StopFlag::default(), started.clone());
    let flag = stop.clone();
    let wait = move || {
        signals.wait();
        flag.stop();
        signals.wait();
        let _ended = started.kill();
        exit(code.into());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(stop)
}

/// Returns the path of a program in the `PATH`, `/usr/sbin` or `/usr/local/sbin`.
pub(crate) fn on_path(name: &str) -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut programs = directories.map(|directory| directory.join(name));
    programs.find(|program| is_program(program)).with_context(|| format!("`{name}` is not on the `PATH`"))
}

/// Returns `true` if a file is executable.
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the first line of standard output, or else of standard error. Ignores the exit status, because
/// `wrk -v` fails.
pub(crate) fn first_line(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&printed).lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}

/// Returns the anonymous memory of a process (heap and stacks) in bytes.
pub(crate) fn anonymous_memory(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the CPU time of all processes of a program so far.
pub(crate) fn cpu_of_program(program: &Path) -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs_it = |id: &u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|path| path == program);
    ids.filter(runs_it).filter_map(|id| Some(usage(id)?.cpu)).sum()
}

/// Returns the descriptor limit of a process, if any.
pub(crate) fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the number of descriptors that a process needs for `connections`.
pub(crate) fn descriptors_needed(connections: u32) -> u64 {
    u64::from(connections) + OTHER_DESCRIPTORS
}

/// Returns the maximum number of clients of a process that uses `each` descriptors per client, if there is a
/// limit.
pub(crate) fn max_clients(each: u64) -> Option<u32> {
    let clients = descriptor_limit()?.saturating_sub(OTHER_DESCRIPTORS) / each;
    Some(u32::try_from(clients.max(1)).unwrap_or(u32::MAX))
}

/// Number of descriptors that a process needs in addition to those of its connections.
const OTHER_DESCRIPTORS: u64 = 64;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of output lines in the error of a failed program.
const TAIL_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_program_is_killed_and_error_has_output_of_failed_one() {
        let (groups, stop) = (ProcessGroups::default(), StopFlag::default());
        let runner = Runner { groups: &groups, stop: &stop };
        let run = |script: &str, limit| runner.run(Command::new("sh").args(["-c", script]), limit);
        run("exit 0", WAIT_LIMIT).unwrap();
        let endless = format!("{:#}", run("sleep 60", Duration::ZERO).unwrap_err());
        assert!(endless.ends_with("the program did not end in time"), "{endless}");
        let failed = run("echo first; echo last >&2; exit 3", WAIT_LIMIT).unwrap_err().to_string();
        assert!(
            failed.contains("exit 3` ended with exit status: 3") && failed.ends_with("first\nlast"),
            "{failed}"
        );
    }

    #[test]
    fn memory_and_cpu_time_are_read() {
        let (groups, stop) = (ProcessGroups::default(), StopFlag::default());
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let runner = Runner { groups: &groups, stop: &stop };
        let ended = runner.end_of(Command::new("sh").args(["-c", busy]), WAIT_LIMIT).unwrap();
        assert!(ended.status.success() && ended.cpu > Duration::ZERO, "{:?}", ended.cpu);
        assert!(anonymous_memory(std::process::id()).unwrap() > 0);
        assert!(cpu_of_program(&env::current_exe().unwrap()) > Duration::ZERO);
        assert_eq!(cpu_of_program(Path::new("/no/such/program")), Duration::ZERO);
    }

    const WAIT_LIMIT: Duration = Duration::from_secs(30);
}
