//! The client for the official MCP conformance suite. It does only what the scenarios of the suite require.
//!
//! It uses only the public API of the SDK. `cargo xtask conformance` runs the suite.
#![forbid(unsafe_code)]

// input of the suite
mod situation;

// calls and answers
mod calls;
mod questions;
mod authorization;

use std::process::ExitCode;

use situation::Situation;

/// Any error.
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
        // The tools of this scenario cannot be called.
        "json-schema-ref-no-deref" => calls::list_tools(&situation.builder().http(url)).await,
        "json-schema-2020-12-preservation" => calls::echo_schema(&situation.builder().http(url)).await,
        "sep-2322-client-request-state" => questions::between_rounds(&situation).await,
        scenario if scenario.starts_with("auth/") => authorization::run(&situation).await,
        _ => calls::everything(&situation.builder().http(url)).await,
    }
}
