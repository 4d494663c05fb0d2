//! Descendants of a process and their memory, read from `/proc`.

use std::collections::HashMap;
use std::fs;

use anyhow::Context as _;

/// Reads how much anonymous memory, the heap and the stacks, a process and its descendants have now, in
/// octets.
///
/// # Errors
/// When the process is gone, or the kernel does not say.
pub(super) fn anonymous_memory(id: u32) -> anyhow::Result<u64> {
    family(id).into_iter().map(|id| kibibytes(&format!("/proc/{id}/smaps_rollup"), "Pss_Anon:")).sum()
}

/// A process and all its descendants.
pub(super) fn family(id: u32) -> Vec<u32> {
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

/// Place of the parent in [`stat_fields`].
const PARENT: usize = 1;

/// The fields of `/proc/PID/stat` after the name, which may hold anything, also blanks and parentheses.
fn stat_fields(id: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// A line of a file of `/proc` such as `VmRSS:  1234 kB`, in octets.
fn kibibytes(path: &str, name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{path}`"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(value.with_context(|| format!("`{path}` has no `{name}`"))? * 1024)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{anonymous_memory, family};

    /// Of a child, because this process has others that come and go with the tests beside this one.
    #[test]
    fn a_process_has_a_family_and_memory() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id();
        let (family, memory) = (family(id), anonymous_memory(id));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(family, [id]);
        assert!(memory.unwrap() > 0);
    }
}
