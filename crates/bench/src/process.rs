//! Reads the resource use of a process and its descendants from the kernel. The result includes threads
//! that have ended. The result includes ended children as soon as their parent has called `wait`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Resource use of a process and its descendants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// CPU time. The CPU time of threads, including ended threads, has nanosecond precision. The CPU time
    /// of ended children has the precision of clock ticks.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
}

/// Tracks a process and its descendants over several measurements.
#[derive(Debug)]
pub(crate) struct Meter {
    id: u32,
    /// CPU times of the processes at the last measurement.
    known: HashMap<u32, CpuTimes>,
    /// Sum of the last known CPU times of processes that ended without a `wait` call of their parent.
    exited_cpu: Duration,
    is_incomplete: bool,
}

/// CPU times of a process.
#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    /// CPU time of the threads of this process.
    own: Duration,
    /// CPU time of ended children for which this process called `wait`, and of their descendants.
    waited_for: Duration,
}

/// Reads the resource use of process `id`. Returns `None` if the process does not exist.
pub fn usage(id: u32) -> Option<Usage> {
    Meter::new(id).look()
}

/// Returns the CPU time of an ended process, including its threads and its ended children. This function
/// works only until the parent of the process calls `wait`.
pub fn cpu_of_ended(id: u32) -> Option<Duration> {
    CpuTimes::of(id).map(|times| times.own + times.waited_for)
}

impl Meter {
    /// Creates a meter for the process `id` and its descendants.
    pub(crate) fn new(id: u32) -> Self {
        Self { id, known: HashMap::new(), exited_cpu: Duration::ZERO, is_incomplete: false }
    }

    /// Measures the total resource use so far. Returns `None` if the process has ended.
    pub(crate) fn look(&mut self) -> Option<Usage> {
        let mut now = HashMap::new();
        let mut resident_bytes = 0;
        for id in family(self.id) {
            // A descendant may end during the measurement. If the process itself has ended, there is no
            // result.
            let Some((times, resident)) = CpuTimes::of(id).zip(resident_of(id)) else {
                if id == self.id {
                    return None;
                }
                continue;
            };
            now.insert(id, times);
            resident_bytes += resident;
        }
        self.note(now);
        let cpu = self.known.values().map(|times| times.own + times.waited_for).sum::<Duration>();
        Some(Usage { cpu: cpu + self.exited_cpu, resident_bytes })
    }

    /// Returns `true` if a process ended and its parent did not call `wait`. In this case, a part of the
    /// CPU time is missing.
    pub(crate) const fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Stores a new measurement. Normally, the kernel adds the CPU time of an ended process to the parent
    /// that called `wait`. If the kernel has not added this time, adds the last known time to `exited_cpu`.
    fn note(&mut self, now: HashMap<u32, CpuTimes>) {
        let gone = self.known.iter().filter(|(id, _)| !now.contains_key(id));
        let (count, gone) = gone.fold((0, Duration::ZERO), |(count, sum), (_, times)| {
            (count + 1, sum + times.own + times.waited_for)
        });
        let remaining = now.iter().filter_map(|(id, times)| Some((times, self.known.get(id)?)));
        let waited_for: Duration =
            remaining.map(|(times, before)| times.waited_for.saturating_sub(before.waited_for)).sum();
        let missing = gone.saturating_sub(waited_for);
        if missing > ROUNDING * count {
            self.exited_cpu += missing;
            self.is_incomplete = true;
        }
        self.known = now;
    }
}

impl CpuTimes {
    fn of(id: u32) -> Option<Self> {
        let fields = stat_fields(id)?;
        let ticks = |places: [usize; 2]| {
            let [user, system] = places.map(|place| fields.get(place)?.parse::<u64>().ok());
            Some(Duration::from_nanos(
                (user? + system?) * (1_000_000_000 / rustix::param::clock_ticks_per_second()),
            ))
        };
        Some(Self {
            own: by_clock(id).or_else(|| ticks([USER_TIME, SYSTEM_TIME]))?,
            waited_for: ticks([USER_TIME_WAITED_FOR, SYSTEM_TIME_WAITED_FOR])?,
        })
    }
}

/// Reads the CPU clock of a process.
fn by_clock(id: u32) -> Option<Duration> {
    let id = Pid::from_raw(i32::try_from(id).ok()?);
    clock_getcpuclockid(id).and_then(clock_gettime).ok().map(Duration::from)
}

/// Returns a process and all its descendants.
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

/// Returns a map from each process on this machine to its parent.
fn parents() -> HashMap<u32, u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, stat_fields(id)?.get(PARENT)?.parse().ok()?))).collect()
}

/// Returns the resident memory of a process in bytes.
fn resident_of(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = resident.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Some(kibibytes.unwrap_or(0) * 1024)
}

/// Returns the fields of `/proc/PID/stat` after the process name. The process name may contain spaces and
/// parentheses.
fn stat_fields(id: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Indexes into the result of [`stat_fields`].
const PARENT: usize = 1;
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const USER_TIME_WAITED_FOR: usize = 13;
const SYSTEM_TIME_WAITED_FOR: usize = 14;

/// Allowed difference between the CPU time of an ended process and the time that the kernel adds to its
/// parent. The allowance covers two clock ticks, and the short time in which the kernel counts the ended
/// process nowhere.
const ROUNDING: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn running_process_has_usage_and_missing_process_has_none() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.cpu > Duration::ZERO && usage.resident_bytes > 1 << 20, "{usage:?}");
        assert_eq!(super::usage(u32::MAX), None);
    }

    /// Regression test: the CPU time of ended threads was lost.
    #[test]
    fn cpu_time_of_ended_threads_counts() {
        let id = std::process::id();
        let before = usage(id).unwrap().cpu;
        let used = thread::spawn(|| {
            while crate::worker::thread_use().cpu < 50 * MILLISECOND {
                std::hint::black_box(0);
            }
            crate::worker::thread_use().cpu
        });
        let used = used.join().unwrap();
        assert!(usage(id).unwrap().cpu >= before + used, "the {used:?} of the ended thread are missing");
    }

    #[test]
    fn thread_without_a_core_reports_waiting_time() {
        let threads = 1 + 2 * thread::available_parallelism().unwrap().get();
        let spin = || {
            while crate::worker::thread_use().cpu < 40 * MILLISECOND {
                std::hint::black_box(0);
            }
            crate::worker::thread_use().waited
        };
        let threads: Vec<_> = (0..threads).map(|_| thread::spawn(spin)).collect();
        let waited = threads.into_iter().map(|thread| thread.join().unwrap()).max();
        assert!(waited.unwrap() > MILLISECOND * 5, "{waited:?}");
    }

    /// Regression test: the CPU time of ended child processes was lost.
    #[test]
    fn cpu_time_of_reaped_children_counts() {
        let script = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); echo done; read -r line";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut meter = Meter::new(child.id());
        let before = meter.look().unwrap().cpu;
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let (after, alone) = (meter.look().unwrap().cpu, by_clock(child.id()).unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(
            after > before + 30 * MILLISECOND && after > alone * 3,
            "{before:?}, {after:?}, alone {alone:?}"
        );
        assert!(!meter.is_incomplete());
    }

    fn times(entries: &[(u32, u32, u32)]) -> HashMap<u32, CpuTimes> {
        let entry = |&(id, own, waited_for): &(u32, u32, u32)| {
            (id, CpuTimes { own: MILLISECOND * own, waited_for: MILLISECOND * waited_for })
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn unreaped_children_keep_their_last_sample_and_mark_it_incomplete() {
        let mut meter = Meter::new(1);
        meter.note(times(&[(1, 100, 0), (2, 500, 0), (3, 400, 50)]));
        // The parent waited for the first child, which used a little more CPU time after the last sample.
        meter.note(times(&[(1, 110, 520), (3, 400, 50)]));
        assert!(!meter.is_incomplete() && meter.exited_cpu.is_zero());
        // No process waited for the other child.
        meter.note(times(&[(1, 110, 520)]));
        assert!(meter.is_incomplete());
        assert_eq!(meter.exited_cpu, MILLISECOND * 450);
    }
}
