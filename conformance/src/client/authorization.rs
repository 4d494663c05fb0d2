//! OAuth configuration of the authorization scenarios.

use std::io;

use serde_json::Value;
use thruway_client::Client;
use thruway_mcp_sdk::McpClientError;
use thruway_mcp_sdk::oauth::{
    IdentityProvider, LoginFuture, OAuth, OAuthError, PrivateKey, RegisteredClient, UserAgent,
};

use super::scenario::Scenario;
use super::{Outcome, calls};

/// Runs an authorization scenario.
pub(crate) async fn run(scenario: &Scenario) -> Outcome {
    let outcome = call(scenario, scenario.context["issuer"].as_str()).await;
    // Some scenarios provide a client secret without its issuer. In these scenarios, the first attempt fails,
    // and the error names the issuer. An operator would then add this issuer to the configuration; here, the
    // client adds it.
    let outcome = match required_issuer(&outcome) {
        Some(issuer) => call(scenario, Some(&issuer)).await,
        None => outcome,
    };
    check_outcome(&scenario.name, outcome)
}

async fn call(scenario: &Scenario, issuer: Option<&str>) -> Outcome {
    let oauth = oauth_config(&scenario.name, &scenario.context, issuer)?;
    calls::use_all_features(&scenario.builder().oauth(oauth).http(&scenario.url)).await
}

fn required_issuer(outcome: &Outcome) -> Option<String> {
    match outcome.as_ref().err()?.downcast_ref()? {
        McpClientError::Authorization(OAuthError::IssuerRequired(issuer)) => Some(issuer.to_string()),
        _ => None,
    }
}

/// Returns the OAuth configuration for the scenario. The client sends a client secret only to `issuer`, if
/// set.
fn oauth_config(scenario: &str, context: &Value, issuer: Option<&str>) -> Outcome<OAuth> {
    let text = |name: &str| context[name].as_str().unwrap_or_default().to_owned();
    let client = || {
        let client = RegisteredClient::with_secret(text("client_id"), text("client_secret"));
        match issuer {
            Some(issuer) => client.of_issuer(issuer),
            None => client,
        }
    };
    Ok(match scenario {
        "auth/client-credentials-jwt" => OAuth::client_credentials(client_with_key(&text)?),
        "auth/client-credentials-basic" => OAuth::client_credentials(client()),
        "auth/enterprise-managed-authorization" => {
            let id_token = text("idp_id_token");
            let registered = RegisteredClient::public(text("idp_client_id"));
            let provider = IdentityProvider::new(text("idp_token_endpoint"), registered, move || {
                let id_token = id_token.clone();
                async move { Ok(id_token) }
            });
            OAuth::enterprise(client(), provider)
        }
        "auth/wif-jwt-bearer" => {
            let assertion = text("valid_jwt");
            OAuth::workload(RegisteredClient::public(text("client_id")), move |_| {
                let assertion = assertion.clone();
                async move { Ok(assertion) }
            })
        }
        "auth/pre-registration" => OAuth::login(Headless).client(client()),
        // This scenario requires dynamic client registration. The server of this scenario also supports
        // metadata documents, so the client must not have such a document.
        "auth/offline-access-scope" => OAuth::login(Headless),
        _ => OAuth::login(Headless).metadata_document("https://conformance-test.local/client-metadata.json"),
    })
}

/// Checks the outcome. In scenarios with an untrustworthy server, the client must fail with the right error.
fn check_outcome(scenario: &str, outcome: Outcome) -> Outcome {
    let is_expected: fn(&OAuthError) -> bool = match scenario {
        "auth/resource-mismatch" => |error| matches!(error, OAuthError::ResourceMismatch(_)),
        "auth/metadata-issuer-mismatch" => |error| matches!(error, OAuthError::IssuerMismatch(_)),
        "auth/scope-retry-limit" => |error| *error == OAuthError::ScopeInsufficient,
        "auth/iss-supported-missing"
        | "auth/iss-wrong-issuer"
        | "auth/iss-unexpected"
        | "auth/iss-normalized" => |error| *error == OAuthError::RedirectIssuerMismatch,
        _ => return outcome,
    };
    let error = outcome.err().ok_or("the client trusted a server that it should refuse")?;
    match error.downcast_ref() {
        Some(McpClientError::Authorization(refusal)) if is_expected(refusal) => Ok(()),
        _ => Err(error),
    }
}

fn client_with_key(text: &impl Fn(&str) -> String) -> Result<RegisteredClient, OAuthError> {
    let key = PrivateKey::from_pem(&text("signing_algorithm"), &text("private_key_pem"))?;
    Ok(RegisteredClient::with_private_key(text("client_id"), key))
}

/// User agent without a user. The suite's authorization servers redirect immediately, without a login.
struct Headless;

impl UserAgent for Headless {
    fn redirect_uri(&self) -> io::Result<String> {
        Ok("http://127.0.0.1:3000/callback".to_owned())
    }

    fn log_in<'a>(&'a self, url: &'a str) -> LoginFuture<'a> {
        Box::pin(async move {
            let client = Client::new();
            let response = client.get(url).send().await.map_err(io::Error::other)?;
            let location = response.field("location").and_then(|location| location.as_str());
            location.map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidData.into())
        })
    }
}
