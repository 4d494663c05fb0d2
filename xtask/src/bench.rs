//! `cargo xtask bench`: builds `thruway` and `thruway-suite`. The suite then builds the peers, and measures
//! Thruway and the peers.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::program::{self, BUILD_LIMIT, Profile, repository};
use crate::stop::Stop;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments of `thruway-suite`, such as `gateway --rounds 6`; default: `all`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Builds the programs and runs the suite, which writes its reports to `target/suite`.
///
/// # Errors
/// A build or the suite fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let stop = Stop::new(2 * BUILD_LIMIT)?;
    let is_help = options.only_prints_help();
    let profile = if is_help { Profile::Dev } else { Profile::Dist };
    // Runs two separate builds, because a common build would combine the features of shared dependencies.
    let build = |package: &str| anyhow::Ok(program::build(&[package], profile, &stop)?.join(package));
    let mut command = Command::new(build("thruway-suite")?);
    command.args(&options.arguments);
    if !is_help {
        command.args(options.default_arguments());
        if !options.has_option("--program") {
            command.arg("--program").arg(build("thruway")?);
        }
    }
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "the suite ended with {status}");
    Ok(())
}

impl Options {
    fn has_option(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('=').next() == Some(option))
    }

    /// Returns `true` if the suite only prints help or its version.
    fn only_prints_help(&self) -> bool {
        ["--help", "-h", "--version"].iter().any(|option| self.has_option(option))
    }

    /// Returns the default arguments for options that the command line does not set.
    fn default_arguments(&self) -> Vec<OsString> {
        let mut default_arguments = Vec::new();
        if self.arguments.is_empty() {
            default_arguments.push("all".into());
        }
        default_arguments.push("--build".into());
        for (option, folder) in [("--peers-from", "peers"), ("--report", "target/suite")] {
            if !self.has_option(option) {
                default_arguments.extend([option.into(), repository().join(folder).into()]);
            }
        }
        default_arguments
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn suite_gets_defaults_for_missing_options() {
        for (line, default_arguments, only_prints_help) in [
            ("", "all --build --peers-from REPOSITORY/peers --report REPOSITORY/target/suite", false),
            ("gateway --report=a --cases from --peers-from b", "--build", false),
            ("--help --report a --peers-from b", "--build", true),
        ] {
            let options = Options { arguments: line.split_whitespace().map(str::to_owned).collect() };
            let repository = crate::program::repository().into_os_string().into_string().unwrap();
            let expected = default_arguments.replace("REPOSITORY", &repository);
            assert_eq!(options.default_arguments().join(" ".as_ref()).to_str(), Some(&*expected));
            assert_eq!(options.only_prints_help(), only_prints_help, "{line}");
        }
    }
}
