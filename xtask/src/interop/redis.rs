//! `cargo xtask interop --redis`: tests of the shared store with real servers.

use std::process::Command;

use super::check::Checker;
use crate::program::{BUILD_LIMIT, find_on_path, repository};

/// Runs the tests in `crates/store/tests/redis` and `crates/cli/tests/it/store_faults`.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    let all =
        [("shared store", "thruway-store", "redis", ""), ("gateways", "thruway", "it", "store_faults::")];
    for (what, package, test, filter) in all {
        if find_on_path("redis-server").is_none() {
            checker.not_installed("redis-server", what);
            continue;
        }
        checker.row("redis-server", what, || {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(repository());
            cargo.args(["test", "-p", package, "--test", test, "--", "--ignored", filter]);
            let printed = crate::child::output_of("the tests", cargo, BUILD_LIMIT, checker.stop)?;
            Ok(printed.lines().rfind(|line| line.starts_with("test result")).unwrap_or_default().to_owned())
        })?;
    }
    Ok(())
}
