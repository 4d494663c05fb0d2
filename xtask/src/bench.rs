//! `cargo xtask bench`: builds `thruway` and `thruway-suite`, and lets the suite build the peers and measure.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, ensure};

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
    // One after the other: dependencies of both would get the features that either needs.
    let build = |package: &str| anyhow::Ok(program::build(&[package], profile, &stop)?.join(package));
    let mut command = Command::new(build("thruway-suite")?);
    command.args(&options.arguments);
    if !is_question {
        command.args(options.others());
        if !options.names("--program") {
            command.arg("--program").arg(build("thruway")?);
        }
    }
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "the suite ended with {status}");
    Ok(())
}

impl Options {
    fn names(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('=').next() == Some(option))
    }

    /// Returns `true` if the arguments measure nothing.
    fn asks_only(&self) -> bool {
        ["--help", "-h", "--version"].iter().any(|option| self.names(option))
    }

    /// Arguments that follow those of the command line.
    fn others(&self) -> Vec<OsString> {
        let mut others = Vec::new();
        if self.arguments.is_empty() {
            others.push("all".into());
        }
        others.push("--build".into());
        for (option, folder) in [("--peers-from", "peers"), ("--report", "target/suite")] {
            if !self.names(option) {
                others.extend([option.into(), repository().join(folder).into()]);
            }
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn the_suite_gets_the_arguments_that_are_not_given() {
        for (line, others, asks_only) in [
            ("", "all --build --peers-from REPOSITORY/peers --report REPOSITORY/target/suite", false),
            ("gateway --report=a --cases from --peers-from b", "--build", false),
            ("--help --report a --peers-from b", "--build", true),
        ] {
            let options = Options { arguments: line.split_whitespace().map(str::to_owned).collect() };
            let repository = crate::program::repository().into_os_string().into_string().unwrap();
            let expected = others.replace("REPOSITORY", &repository);
            assert_eq!(options.others().join(" ".as_ref()).to_str(), Some(&*expected));
            assert_eq!(options.asks_only(), asks_only, "{line}");
        }
    }
}
