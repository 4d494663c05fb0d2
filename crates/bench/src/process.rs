//! What a process and its descendants cost, as `/proc` tells.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// What a process has used so far, its descendants included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// CPU time of all threads, by the scheduler where the kernel tells, otherwise in clock ticks.
    pub cpu: Duration,
    /// Resident memory in octets.
    pub resident_bytes: u64,
}

/// Reads what process `id` has used. `None` if it is gone.
pub fn usage(id: u32) -> Option<Usage> {
    let mut all = Usage { cpu: Duration::ZERO, resident_bytes: 0 };
    for (place, id) in family(id).into_iter().enumerate() {
        // A descendant may end while it is looked at, the process itself may not.
        let Some(usage) = usage_of(id) else {
            if place == 0 {
                return None;
            }
            continue;
        };
        all.cpu += usage.cpu;
        all.resident_bytes += usage.resident_bytes;
    }
    Some(all)
}

/// CPU time of a process that has ended and that nobody has waited for yet, all its threads included, in clock ticks.
pub fn cpu_of_ended(id: u32) -> Option<Duration> {
    by_ticks(id)
}

/// A process and all its descendants.
fn family(id: u32) -> Vec<u32> {
    let parents = parents();
    let mut family = vec![id];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|&(_, &of)| of == parent).map(|(&child, _)| child));
        next += 1;
    }
    family
}

/// The parent of every process.
fn parents() -> HashMap<u32, u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, stat_fields(id)?.get(PARENT)?.parse().ok()?))).collect()
}

fn usage_of(id: u32) -> Option<Usage> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = resident.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let by_scheduler = scheduled(id).filter(|cpu| !cpu.is_zero());
    Some(Usage { cpu: by_scheduler.or_else(|| by_ticks(id))?, resident_bytes: kibibytes.unwrap_or(0) * 1024 })
}

fn scheduled(id: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten();
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(times.sum()))
}

fn by_ticks(id: u32) -> Option<Duration> {
    let fields = stat_fields(id)?;
    let ticks = fields.get(USER_TIME)?.parse::<u64>().ok()? + fields.get(SYSTEM_TIME)?.parse::<u64>().ok()?;
    Some(Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())))
}

/// The fields of `/proc/PID/stat` after the name, which may hold anything.
fn stat_fields(id: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Places in [`stat_fields`].
const PARENT: usize = 1;
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something_and_one_that_is_not_there_nothing() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.cpu > Duration::ZERO && usage.resident_bytes > 1 << 20, "{usage:?}");
        assert_eq!(super::usage(u32::MAX), None);
    }
}
