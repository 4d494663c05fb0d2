//! Programs that are run to their end, and the use and limits of processes, as the kernel tells them.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{anyhow, bail};
use rustix::process::{Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, kill_process_group, waitid};
use thruway_bench::{ProcessGroups, StopFlag, cpu_of_ended, usage};
use thruway_net::Clock;

/// Runs programs that end, such as compilers and package managers.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    pub(crate) groups: &'a ProcessGroups,
    pub(crate) stop: &'a StopFlag,
}

impl Runner<'_> {
    /// Runs a command; `shown` is its name in errors.
    pub(crate) fn run(self, shown: &str, command: &mut Command, limit: Duration) -> anyhow::Result<()> {
        let printed = tempfile::NamedTempFile::new()?;
        let output = || File::options().append(true).open(printed.path());
        command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        let mut child =
            self.groups.start(command).map_err(|error| anyhow!("cannot start {shown}: {error}"))?;
        let ended = wait(&mut child, limit, self.stop);
        self.groups.forget(child.id());
        let (status, _) = ended.map_err(|why| anyhow!("`{shown}`: {why}"))?;
        if !status.success() {
            let printed = fs::read_to_string(printed.path()).unwrap_or_default();
            let lines: Vec<_> = printed.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
            bail!("`{shown}` ended with {status}\n{tail}");
        }
        Ok(())
    }
}

/// Returns the program of this name in the `PATH`, or in the folders for servers.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    directories.map(|directory| directory.join(name)).find(|program| is_program(program))
}

/// Returns `true` if a file can be run.
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Waits for the end of a child, and returns its status and CPU time. Kills it when it takes too long, or it
/// is time to end.
pub(crate) fn wait(
    child: &mut Child,
    patience: Duration,
    stop: &StopFlag,
) -> Result<(ExitStatus, Duration), String> {
    let (clock, id) = (Clock::system(), child.id());
    let end = clock.now_exact() + patience;
    // The child stays in the process table until its CPU time is known.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(Pid::from_child(child)), look).is_ok_and(|status| status.is_none()) {
        if stop.is_set() || clock.now_exact() > end {
            let _ = child.kill();
            let _ = child.wait();
            return Err(if stop.is_set() { "interrupted" } else { "it did not end" }.to_owned());
        }
        sleep(PAUSE);
    }
    let cpu = cpu_of_ended(id).unwrap_or_default();
    child.wait().map(|status| (status, cpu)).map_err(|error| error.to_string())
}

/// The first line that a command prints, whatever its status and wherever: `wrk -v` fails.
pub(crate) fn first_line(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&printed).lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}

/// Runs `work` with a child, and kills the group of the child when that takes longer, or when it is time to
/// end: then nothing is left to wait for.
pub(crate) fn guarded<T>(
    child: u32,
    limit: Duration,
    stop: &StopFlag,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let (done, is_done) = channel::<()>();
    let (stop, group) = (stop.clone(), i32::try_from(child).ok().and_then(Pid::from_raw));
    let end = Clock::system().now_exact() + limit;
    thread::scope(|scope| {
        scope.spawn(move || {
            let clock = Clock::system();
            while is_done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if stop.is_set() || clock.now_exact() > end {
                    // It may have ended already.
                    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Reads the anonymous memory of a process, its heap and stacks, in bytes.
pub(crate) fn anonymous_memory(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the CPU time that the processes of a program have used so far.
pub(crate) fn cpu_of_program(program: &Path) -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs_it = |id: &u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|path| path == program);
    ids.filter(runs_it).filter_map(|id| Some(usage(id)?.cpu)).sum()
}

/// Returns the number of descriptors that a process may have, if there is a limit.
pub(crate) fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the number of descriptors that a process needs for so many connections.
pub(crate) fn descriptors_needed(connections: u32) -> u64 {
    u64::from(connections) + BESIDES
}

/// Returns the number of clients that a process can have that takes `each` descriptors for one of them, if
/// there is a limit.
pub(crate) fn room_for_clients(each: u64) -> Option<u32> {
    descriptor_limit().map(|limit| room_within(limit, each))
}

fn room_within(limit: u64, each: u64) -> u32 {
    let clients = limit.saturating_sub(BESIDES) / each;
    u32::try_from(clients.max(1)).unwrap_or(u32::MAX)
}

/// Descriptors besides those of the connections.
const BESIDES: u64 = 64;

const LOOK: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(10);

/// Lines of a failed program's output that are shown.
const TAIL_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_end_is_ended_and_what_others_cost_is_known() {
        let mut endless = Command::new("sleep").arg("60").spawn().unwrap();
        let why = wait(&mut endless, Duration::ZERO, &StopFlag::default()).unwrap_err();
        assert_eq!(why, "it did not end");
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut busy = Command::new("sh").args(["-c", busy]).spawn().unwrap();
        let (status, cpu) = wait(&mut busy, Duration::from_secs(30), &StopFlag::default()).unwrap();
        assert!(status.success() && cpu > Duration::ZERO, "{cpu:?}");
    }

    #[test]
    fn a_failed_command_is_named_with_the_end_of_its_output() {
        let (groups, stop) = (ProcessGroups::default(), StopFlag::default());
        let runner = Runner { groups: &groups, stop: &stop };
        let run =
            |script| runner.run("script", Command::new("sh").args(["-c", script]), Duration::from_secs(30));
        run("exit 0").unwrap();
        let failed = run("echo first; echo last >&2; exit 3").unwrap_err().to_string();
        assert!(
            failed.contains("`script` ended with exit status: 3") && failed.ends_with("first\nlast"),
            "{failed}"
        );
    }

    #[test]
    fn anonymous_memory_and_cpu_time_of_this_program_are_known() {
        assert!(anonymous_memory(std::process::id()).unwrap() > 0);
        assert!(cpu_of_program(&env::current_exe().unwrap()) > Duration::ZERO);
        assert_eq!(cpu_of_program(Path::new("/no/such/program")), Duration::ZERO);
    }

    #[test]
    fn who_takes_two_for_each_client_has_room_for_half_as_many() {
        assert_eq!(room_within(20_000, 1), 19_936);
        assert_eq!(room_within(20_000, 2), 9_968);
        assert_eq!((room_within(10, 2), room_within(u64::MAX, 2)), (1, u32::MAX));
        assert_eq!(descriptors_needed(10_000), 10_064);
    }
}
