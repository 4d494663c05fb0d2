//! The processes of this machine, as `/proc` lists them.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process_group};

/// A process that has not ended yet, or that its parent has not awaited yet.
struct Process {
    id: Pid,
    parent: Option<Pid>,
    group: Option<Pid>,
    has_ended: bool,
}

/// Returns `true` if a process of the group `id` still runs. Processes that have ended do not count, even if
/// their parents have not awaited them. If `/proc` is not readable, the answer is `true`.
pub(super) fn is_group_running(id: Pid) -> bool {
    processes().map_or(true, |processes| {
        processes.iter().any(|process| process.group == Some(id) && !process.has_ended)
    })
}

/// Kills the groups that child processes of `parent` lead.
pub(super) fn kill_groups_of_children(parent: Pid) {
    for process in processes().unwrap_or_default() {
        if process.parent == Some(parent) && process.group == Some(process.id) {
            // The group may have ended by itself.
            let _ = kill_process_group(process.id, Signal::KILL);
        }
    }
}

fn processes() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // A process may end in the meantime.
        let Ok(entry) = entry else { continue };
        let Some(id) = entry.file_name().to_str().and_then(parse_id) else { continue };
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        processes.extend(parse_stat(id, &String::from_utf8_lossy(&stat)));
    }
    Ok(processes)
}

/// Parses the content of `/proc/ID/stat`. The name of the program may contain spaces and parentheses.
fn parse_stat(id: Pid, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
    let (parent, group) = (parse_id(fields.next()?), parse_id(fields.next()?));
    Some(Process { id, parent, group, has_ended })
}

fn parse_id(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|id| *id > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use rustix::process::getpgid;
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;

    #[test]
    fn names_of_programs_do_not_change_the_fields() {
        let id = Pid::from_raw(7).unwrap();
        for (stat, has_ended) in [("7 (a) Z 1) S 5 6 6 0 -1", false), ("7 (sh) Z 5 6 6 0 -1", true)] {
            let process = parse_stat(id, stat).unwrap();
            assert_eq!((process.parent, process.group), (Pid::from_raw(5), Pid::from_raw(6)), "{stat}");
            assert_eq!(process.has_ended, has_ended, "{stat}");
        }
        for stat in ["", "7 (a", "7 (a) S", "7 (a) S 1"] {
            assert!(parse_stat(id, stat).is_none(), "{stat}");
        }
    }

    #[tokio::test]
    async fn groups_of_children_are_killed() {
        let script = "trap '' TERM; setsid sleep 600 & echo $!; wait; exit 3";
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", script]).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut shell = shell.spawn().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let group = parse_id(&lines.next_line().await.unwrap().unwrap()).unwrap();
        // `setsid` creates the group at some time after its start.
        while getpgid(Some(group)) != Ok(group) {
            tokio::task::yield_now().await;
        }
        kill_groups_of_children(parse_id(&shell.id().unwrap().to_string()).unwrap());
        assert_eq!(shell.wait().await.unwrap().code(), Some(3));
        assert!(!is_group_running(group));
    }
}
