//! `cargo xtask interop --redis`: tests of the shared store and of fleets with real servers. The environment variable
//! `REDIS_SERVER` selects another program than `redis-server`, such as `valkey-server`.

use std::path::Path;
use std::process::Command;

use thruway_testkit::redis_server;

use super::check::Checker;
use crate::program::{BUILD_LIMIT, find_on_path, repository};

/// Runs the ignored tests in `crates/store/tests/redis`, `crates/daemon/tests/it` and `crates/cli/tests/it/store_faults`,
/// without the test of five minutes.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    let program = redis_server().get_program().to_string_lossy().into_owned();
    if find_on_path(&program).is_none() {
        checker.not_installed(&program, "shared store");
        return Ok(());
    }
    let server = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or(&program);
    let all = [
        ("shared store", "thruway-store", "redis", ""),
        ("fleet", "thruway-daemon", "it", ""),
        ("store faults", "thruway", "it", "store_faults::"),
    ];
    for (what, package, test, filter) in all {
        checker.row(server, what, || {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(repository());
            cargo.args([
                "test",
                "-p",
                package,
                "--test",
                test,
                "--",
                "--ignored",
                "--skip",
                "five_minutes",
                filter,
            ]);
            let printed = crate::child::output_of("the tests", cargo, BUILD_LIMIT, checker.stop)?;
            Ok(printed.lines().rfind(|line| line.starts_with("test result")).unwrap_or_default().to_owned())
        })?;
    }
    Ok(())
}
