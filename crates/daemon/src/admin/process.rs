//! The metrics of the process, with the names of the Prometheus client libraries: CPU time, memory, threads
//! and file descriptors. On systems without `/proc`, these metrics are absent.

use std::fs;

use thruway_telemetry::MetricKind as Kind;

use super::exposition::Exposition;

/// Resources that the process uses.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ProcessResources {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    open_descriptors: u64,
    /// `None` if the number is not limited.
    descriptors_max: Option<u64>,
}

/// Writes the metrics of the process.
pub(super) fn write_resources(exposition: &mut Exposition) {
    let Some(found) = ProcessResources::read() else { return };
    let help = "CPU time of the process in user and system mode.";
    exposition.family("process_cpu_seconds_total", Kind::Counter, help).sample(&[], found.cpu_seconds);
    let mut gauge = |name, help, value: u64| exposition.family(name, Kind::Gauge, help).sample(&[], value);
    gauge("process_resident_memory_bytes", "Memory of the process in RAM.", found.resident_bytes);
    gauge("process_virtual_memory_bytes", "Address space of the process.", found.virtual_bytes);
    gauge("process_threads", "Threads of the process.", found.threads);
    gauge("process_open_fds", "Open file descriptors of the process.", found.open_descriptors);
    if let Some(most) = found.descriptors_max {
        gauge("process_max_fds", "Maximum number of open file descriptors.", most);
    }
}

impl ProcessResources {
    fn read() -> Option<Self> {
        let read = |file| fs::read_to_string(format!("/proc/self/{file}")).ok();
        let (status, limits) = (read("status")?, read("limits").unwrap_or_default());
        let kibibytes = |name| Some(number_after(&status, name)?.saturating_mul(1024));
        Some(Self {
            cpu_seconds: cpu_seconds(&read("stat")?)?,
            resident_bytes: kibibytes("VmRSS:")?,
            virtual_bytes: kibibytes("VmSize:")?,
            threads: number_after(&status, "Threads:")?,
            // Without the descriptor that reads the directory.
            open_descriptors: (fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
            descriptors_max: number_after(&limits, "Max open files"),
        })
    }
}

/// Returns the first number after `name` at the start of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU time in `/proc/self/stat` (`proc_pid_stat(5)`). The name of the process may contain spaces
/// and parentheses, so this function counts the fields after the last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let ticks: u32 = fields.next()?.parse().ok()?;
    let of_system: u32 = fields.next()?.parse().ok()?;
    Some((f64::from(ticks) + f64::from(of_system)) / TICKS_PER_SECOND)
}

/// Linux reports CPU times in this unit on all architectures that Rust supports (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 9 9 20 0 4 0 100 1 1";
        assert_eq!(cpu_seconds(stat), Some(4.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
        assert_eq!(cpu_seconds(""), None);
    }

    #[test]
    fn numbers_are_read_by_their_name() {
        let limits = "Max cpu time   unlimited  unlimited  seconds\nMax open files  1024  4096  files\n";
        assert_eq!(number_after(limits, "Max open files"), Some(1024));
        assert_eq!(number_after(limits, "Max cpu time"), None);
        assert_eq!(number_after("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
        assert_eq!(number_after("", "VmRSS:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn resources_of_this_process_are_plausible() {
        let found = ProcessResources::read().unwrap();
        assert!(found.resident_bytes > 0 && found.resident_bytes <= found.virtual_bytes, "{found:?}");
        assert!(found.threads > 0 && found.open_descriptors > 0 && found.cpu_seconds >= 0.0, "{found:?}");
    }
}
