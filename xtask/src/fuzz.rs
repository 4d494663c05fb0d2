//! `cargo xtask fuzz`: builds the fuzz targets and runs each for a while.
//!
//! It uses plain cargo with the flags of `cargo fuzz`, so it needs neither a nightly toolchain nor `cargo
//! fuzz`. Findings are in `fuzz/artifacts`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::program::repository;
use crate::stop::Stop;
use crate::{child, program};

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Names of the targets; default: all
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Build without the address sanitizer: twice as fast, but does not detect out-of-bounds reads
    #[arg(long)]
    no_sanitizer: bool,
}

/// Builds the targets, runs them one after the other, and prints a line for each.
///
/// # Errors
/// A target is unknown, cannot be built, or failed.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let directory = repository().join("fuzz");
    let mut targets = names(&fs::read_to_string(directory.join("Cargo.toml"))?)?;
    if let Some(unknown) = options.targets.iter().find(|name| !targets.contains(name)) {
        bail!("unknown fuzz target `{unknown}`\n\nhint: the targets are {}", targets.join(", "));
    }
    targets.retain(|target| options.targets.is_empty() || options.targets.contains(target));
    let each = Duration::from_secs(options.seconds.into());
    let count = u32::try_from(targets.len())?;
    let stop = Stop::new(BUILD_LIMIT + (each + STARTUP) * count)?;
    let programs = build(&directory, !options.no_sanitizer, &stop)?;
    let mut failed = Vec::new();
    for target in &targets {
        match run_one(&directory, &programs.join(target), target, each, &stop) {
            Ok(count) => println!("{target}: {count} inputs in {} s", options.seconds),
            Err(error) => {
                stop.check()?;
                println!("{target}: FAILED: {error:#}");
                failed.push(target.as_str());
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Returns the names of the fuzz targets in a `Cargo.toml`.
fn names(manifest: &str) -> anyhow::Result<Vec<String>> {
    let manifest: toml::Table = toml::from_str(manifest)?;
    let targets = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(targets.filter_map(|target| Some(target.get("name")?.as_str()?.to_owned())).collect())
}

/// Builds all targets and returns their directory.
fn build(directory: &Path, has_sanitizer: bool, stop: &Stop) -> anyhow::Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "host-tuple"]);
    let printed = child::output_of("rustc --print host-tuple", rustc, Duration::from_secs(20), stop)?;
    let host = printed.lines().last().context("rustc does not print its host")?;
    let mut flags = COVERAGE.to_owned();
    let target = directory.join(if has_sanitizer { "target/address" } else { "target/plain" });
    let mut command = Command::new("cargo");
    if has_sanitizer {
        flags.push_str(" -Zsanitizer=address");
        // Stable toolchains include the sanitizer runtime, but accept the sanitizer flag only if this
        // variable is set.
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    // With `--target`, cargo does not use these flags for build scripts and procedural macros.
    command
        .current_dir(directory)
        .args(["build", "--release", "--bins", "--target", host, "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", flags);
    eprintln!("building the fuzz targets");
    child::output_of("cargo build of the fuzz targets", command, BUILD_LIMIT, stop)?;
    Ok(target.join(host).join("release"))
}

/// Runs a target with the seeds and the inputs of earlier runs. Returns the number of executed inputs.
fn run_one(
    directory: &Path,
    program: &Path,
    target: &str,
    time: Duration,
    stop: &Stop,
) -> anyhow::Result<String> {
    let corpus = directory.join("corpus").join(target);
    let artifacts = directory.join("artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(program);
    command
        .arg(&corpus)
        .arg(directory.join("seeds").join(target))
        .arg(format!("-dict={}", directory.join("http.dict").display()))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={}", time.as_secs()))
        // Each input has a limit of 10 seconds.
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]);
    if let Some(symbolizer) = program::find_on_path("llvm-symbolizer") {
        command.env("ASAN_SYMBOLIZER_PATH", symbolizer);
    }
    eprintln!("fuzzing {target} for {} s", time.as_secs());
    let printed = child::output_of(target, command, time + STARTUP, stop)?;
    let count = printed.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    Ok(count.context("the fuzz target did not print the number of inputs")?.trim().to_owned())
}

/// Compiler flags that report the covered code and the compared values to libFuzzer.
const COVERAGE: &str = "--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

const BUILD_LIMIT: Duration = Duration::from_mins(10);

/// Time to read the corpus. The time limit of libFuzzer does not include it.
const STARTUP: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn every_target_has_seeds() {
        let directory = crate::program::repository().join("fuzz");
        let names = names(&std::fs::read_to_string(directory.join("Cargo.toml")).unwrap()).unwrap();
        assert!(!names.is_empty());
        for name in names {
            assert!(directory.join("seeds").join(&name).read_dir().unwrap().next().is_some(), "{name}");
        }
    }
}
