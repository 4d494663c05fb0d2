//! `cargo xtask bench`: builds `thruway` and `thruway-suite`, and lets the suite build the peers and measure.

use std::process::Command;

use anyhow::{Context as _, bail};

use crate::program::{self, BUILD_LIMIT, Profile, repository};
use crate::stop::Stop;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments of `thruway-suite`, such as `gateway --rounds 6`; `all` if there are none.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Builds what is needed and runs the suite, which leaves its reports in `target/suite`.
///
/// # Errors
/// Something cannot be built, or the suite fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(2 * BUILD_LIMIT)?;
    let is_question = options.asks_only();
    let profile = if is_question { Profile::Dev } else { Profile::Dist };
    let mut command = Command::new(program::build_package("thruway-suite", profile, &stop)?);
    command.args(&options.arguments);
    if !is_question {
        command.args(options.others()?);
    }
    if !is_question && !options.names("--program") {
        command.arg("--program").arg(program::build(profile, &stop)?);
    }
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("the suite ended with {status}") }
}

impl Options {
    fn names(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('=').next() == Some(option))
    }

    /// Returns `true` if the arguments measure nothing.
    fn asks_only(&self) -> bool {
        ["--help", "-h", "--version", "--schema", "--from"].iter().any(|option| self.names(option))
    }

    /// Arguments that follow those of the command line.
    fn others(&self) -> anyhow::Result<Vec<String>> {
        let path = |folder: &str| {
            let path = repository().join(folder).into_os_string();
            path.into_string().ok().context("the path of the repository is not UTF-8")
        };
        let mut others = Vec::new();
        if self.arguments.is_empty() {
            others.push("all".to_owned());
        }
        others.push("--build".to_owned());
        for (option, folder) in [("--peers-from", "peers"), ("--report", "target/suite")] {
            if !self.names(option) {
                others.extend([option.to_owned(), path(folder)?]);
            }
        }
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options { arguments: line.split_whitespace().map(str::to_owned).collect() }
    }

    #[test]
    fn the_suite_gets_the_arguments_that_are_not_given() {
        let others = |line: &str| options(line).others().unwrap().join(" ");
        let all = others("");
        assert!(all.starts_with("all --build --peers-from /") && all.ends_with("/target/suite"), "{all}");
        assert!(others("gateway --rounds 7").starts_with("--build --peers-from /"));
        assert_eq!(others("gateway --report=a --peers-from b"), "--build");
    }

    #[test]
    fn a_question_builds_no_peers() {
        assert!(options("--help").asks_only() && options("--from a.json").asks_only());
        assert!(!options("gateway --cases from").asks_only());
    }
}
