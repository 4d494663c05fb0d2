//! Development tasks of the project: `cargo xtask TASK`.
//!
//! This file selects the task. Each task is a module.

// used by several tasks
mod stop;
mod list;
mod child;
mod program;
mod packages;
mod server;
mod expected;

// the tasks
mod bench;
mod conformance;
mod dashboard;
mod differential;
mod fuzz;
mod h2spec;
mod interop;
mod report_page;
mod schema;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of the project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure Thruway and its competitors on this machine.
    #[command(disable_help_flag = true)]
    Bench(bench::Options),
    /// Run the official MCP conformance suite against our server and client.
    Conformance(conformance::Options),
    /// Check the dashboard of the admin listener in Chromium.
    Dashboard(dashboard::Options),
    /// Compare the HTTP/1.1 parser with llhttp, on the test corpus of llhttp.
    Differential(differential::Options),
    /// Run the fuzz targets for a limited time.
    Fuzz(fuzz::Options),
    /// Run the HTTP/2 conformance tests of h2spec against the server and the gateway.
    H2spec,
    /// Test `thruway serve` with third-party clients, servers and test suites.
    Interop(interop::Options),
    /// Check the HTML reports of `thruway bench` in Chromium.
    ReportPage,
    /// Compare the MCP types with the official schema and its examples.
    Schema(schema::Options),
    /// Check the repository rules that the compiler and clippy do not check.
    Tidy,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Bench(options) => bench::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Dashboard(options) => dashboard::run(&options),
        Task::Differential(options) => differential::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::H2spec => h2spec::run(),
        Task::Interop(options) => interop::run(&options),
        Task::ReportPage => report_page::run(),
        Task::Schema(options) => schema::run(&options),
        Task::Tidy => tidy::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
