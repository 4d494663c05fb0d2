//! `cargo xtask interop --redis`: tests of the shared store and of fleets with real servers of Redis and Valkey. The
//! environment variable `REDIS_SERVER` selects another program, such as the path of `valkey-server`.

use std::env;
use std::path::Path;
use std::process::Command;

use super::check::Checker;
use crate::program::{BUILD_LIMIT, find_on_path, repository};

/// Runs the ignored tests in `crates/store/tests/redis`, `crates/daemon/tests/it` and `crates/cli/tests/it/store_faults`,
/// without the tests of five minutes. The tests run once with each server program.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    for program in programs() {
        if find_on_path(&program).is_none() {
            checker.not_installed(&program, "shared store");
            continue;
        }
        let server = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or(&program);
        for (what, package, test, filter) in TESTS {
            checker.row(server, what, || {
                let mut cargo = Command::new("cargo");
                cargo.current_dir(repository()).env(REDIS_SERVER, &program);
                cargo.args(["test", "-p", package, "--test", test, "--", "--ignored"]);
                cargo.args(["--skip", "five_minutes", filter]);
                let printed = crate::child::output_of("the tests", cargo, BUILD_LIMIT, checker.stop)?;
                Ok(printed
                    .lines()
                    .rfind(|line| line.starts_with("test result"))
                    .unwrap_or_default()
                    .to_owned())
            })?;
        }
    }
    Ok(())
}

/// Returns the programs of the servers.
fn programs() -> Vec<String> {
    match env::var(REDIS_SERVER) {
        Ok(program) => vec![program],
        Err(_) => vec!["redis-server".to_owned(), "valkey-server".to_owned()],
    }
}

/// The tests: a description, the package, the test program and a part of the names.
const TESTS: [(&str, &str, &str, &str); 3] = [
    ("shared store", "thruway-store", "redis", ""),
    ("fleet", "thruway-daemon", "it", ""),
    ("store faults", "thruway", "it", "store_faults::"),
];

/// The environment variable that selects the program of the server in the tests.
const REDIS_SERVER: &str = "REDIS_SERVER";
