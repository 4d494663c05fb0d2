//! The processes of this machine, as `/proc` lists them.

use std::fs;
use std::io;

use rustix::process::Pid;

/// A process that has not ended yet, or that its parent has not awaited yet.
struct Process {
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

fn processes() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // A process may end in the meantime.
        let Ok(entry) = entry else { continue };
        if entry.file_name().to_str().and_then(parse_id).is_none() {
            continue;
        }
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        processes.extend(parse_stat(&String::from_utf8_lossy(&stat)));
    }
    Ok(processes)
}

/// Parses the content of `/proc/ID/stat`. The name of the program may contain spaces and parentheses.
fn parse_stat(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
    let group = parse_id(fields.nth(1)?);
    Some(Process { group, has_ended })
}

fn parse_id(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|id| *id > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_do_not_change_the_fields() {
        for (stat, has_ended) in [("7 (a) Z 1) S 5 6 6 0 -1", false), ("7 (sh) Z 5 6 6 0 -1", true)] {
            let process = parse_stat(stat).unwrap();
            assert_eq!(process.group, Pid::from_raw(6), "{stat}");
            assert_eq!(process.has_ended, has_ended, "{stat}");
        }
        for stat in ["", "7 (a", "7 (a) S", "7 (a) S 1"] {
            assert!(parse_stat(stat).is_none(), "{stat}");
        }
    }
}
