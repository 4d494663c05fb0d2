//! The project's tooling, run as `cargo xtask TASK`.
//!
//! Only the choice of the task stands here; each task is a module.

// for all tasks
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
#[command(name = "cargo xtask", about = "The project's tooling")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure Thruway against its peers, side by side on this machine.
    #[command(disable_help_flag = true)]
    Bench(bench::Options),
    /// Run the official MCP conformance suite against our server.
    Conformance(conformance::Options),
    /// Compare the verdicts of `http1` with those of llhttp, on its corpus.
    Differential(differential::Options),
    /// Run the fuzz targets for a while.
    Fuzz(fuzz::Options),
    /// Run the conformance tests of HTTP/2 against the server and the gateway.
    H2spec,
    /// Let clients that others wrote talk to `thruway serve`.
    Interop(interop::Options),
    /// Open the pages of `thruway bench` in a browser, if there is one.
    ReportPage,
    /// Compare the types of `mcp` with the official schema and its examples.
    Schema(schema::Options),
    /// Check the rules of the house that neither the compiler nor clippy knows.
    Tidy,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Bench(options) => bench::run(&options),
        Task::Conformance(options) => conformance::run(&options),
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
