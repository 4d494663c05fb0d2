//! Client that the official MCP conformance suite tests. It supports only what the scenarios need.
//!
//! The client uses only the public API of the SDK. `cargo xtask conformance` runs the suite.
#![forbid(unsafe_code)]

// input of the suite
mod scenario;

// calls and responses to input requests
mod calls;
mod input_requests;
mod authorization;

use std::process::ExitCode;

use scenario::Scenario;

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
    let scenario = Scenario::from_environment()?;
    let url = &scenario.url;
    match scenario.name.as_str() {
        "elicitation-sep1034-client-defaults" | "request-metadata" => {
            calls::use_all_features(&input_requests::answer_all(scenario.builder()).http(url)).await
        }
        "http-custom-headers" => {
            calls::make_listed_calls(&scenario.builder().http(url), &scenario.context).await
        }
        // The tools of this scenario cannot be called.
        "json-schema-ref-no-deref" => calls::list_tools(&scenario.builder().http(url)).await,
        "json-schema-2020-12-preservation" => calls::echo_schema(&scenario.builder().http(url)).await,
        "sep-2322-client-request-state" => input_requests::call_between_rounds(&scenario).await,
        name if name.starts_with("auth/") => authorization::run(&scenario).await,
        _ => calls::use_all_features(&scenario.builder().http(url)).await,
    }
}
