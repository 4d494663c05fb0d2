//! The client that the official MCP conformance suite is run against: what each of the suite's scenarios asks
//! for, and no more.
//!
//! It is written with the public API of the SDK, as anybody would write it. `cargo xtask conformance` has the
//! suite run it.
#![forbid(unsafe_code)]

// what the suite says
mod situation;

// what is done
mod calls;
mod questions;
mod authorization;

use std::process::ExitCode;

use situation::Situation;

/// Whatever went wrong, in words.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome {
    let situation = Situation::read()?;
    let url = &situation.url;
    match situation.scenario.as_str() {
        "elicitation-sep1034-client-defaults" | "request-metadata" => {
            calls::everything(&questions::answer(situation.builder()).http(url)).await
        }
        "http-custom-headers" => calls::of_context(&situation.builder().http(url), &situation.context).await,
        // Its tools cannot be called.
        "json-schema-ref-no-deref" => calls::list_tools(&situation.builder().http(url)).await,
        "json-schema-2020-12-preservation" => calls::echo_schema(&situation.builder().http(url)).await,
        "sep-2322-client-request-state" => questions::between_rounds(&situation).await,
        scenario if scenario.starts_with("auth/") => authorization::run(&situation).await,
        _ => calls::everything(&situation.builder().http(url)).await,
    }
}
