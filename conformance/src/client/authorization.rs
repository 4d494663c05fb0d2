//! Authorization in the scenarios of the suite.

use std::io;

use serde_json::Value;
use thruway_client::Client;
use thruway_mcp_sdk::McpClientError;
use thruway_mcp_sdk::oauth::{
    IdentityProvider, LoginFuture, OAuth, OAuthError, PrivateKey, RegisteredClient, UserAgent,
};

use super::situation::Situation;
use super::{Outcome, calls};

/// Runs a scenario.
pub(crate) async fn run(situation: &Situation) -> Outcome {
    let outcome = call(situation, situation.context["issuer"].as_str()).await;
    // Some scenarios provide a secret without its issuer. They require trust in the issuer that the server
    // names, so the client does what an operator would do: it configures the issuer that the error names.
    let outcome = match required_issuer(&outcome) {
        Some(issuer) => call(situation, Some(&issuer)).await,
        None => outcome,
    };
    judge(&situation.scenario, outcome)
}

async fn call(situation: &Situation, issuer: Option<&str>) -> Outcome {
    let oauth = for_scenario(&situation.scenario, &situation.context, issuer)?;
    calls::everything(&situation.builder().oauth(oauth).http(&situation.url)).await
}

fn required_issuer(outcome: &Outcome) -> Option<String> {
    match outcome.as_ref().err()?.downcast_ref()? {
        McpClientError::Authorization(OAuthError::IssuerRequired(issuer)) => Some(issuer.to_string()),
        _ => None,
    }
}

/// Configures the client from the context of the scenario. `issuer` knows the client, if the client has a
/// secret.
fn for_scenario(scenario: &str, context: &Value, issuer: Option<&str>) -> Outcome<OAuth> {
    let text = |name: &str| context[name].as_str().unwrap_or_default().to_owned();
    let client = || {
        let client = RegisteredClient::with_secret(text("client_id"), text("client_secret"));
        match issuer {
            Some(issuer) => client.of_issuer(issuer),
            None => client,
        }
    };
    Ok(match scenario {
        "auth/client-credentials-jwt" => OAuth::client_credentials(with_key(&text)?),
        "auth/client-credentials-basic" => OAuth::client_credentials(client()),
        "auth/enterprise-managed-authorization" => {
            let id_token = text("idp_id_token");
            let known_as = RegisteredClient::public(text("idp_client_id"));
            let provider = IdentityProvider::new(text("idp_token_endpoint"), known_as, move || {
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
        // This scenario checks registrations only. Its server also supports metadata documents, which the
        // next scenario checks.
        "auth/offline-access-scope" => OAuth::login(Headless),
        _ => OAuth::login(Headless).metadata_document("https://conformance-test.local/client-metadata.json"),
    })
}

/// Checks that the client refuses an untrustworthy server for the right reason.
fn judge(scenario: &str, outcome: Outcome) -> Outcome {
    let is_refusal: fn(&OAuthError) -> bool = match scenario {
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
        Some(McpClientError::Authorization(refusal)) if is_refusal(refusal) => Ok(()),
        _ => Err(error),
    }
}

fn with_key(text: &impl Fn(&str) -> String) -> Result<RegisteredClient, OAuthError> {
    let key = PrivateKey::from_pem(&text("signing_algorithm"), &text("private_key_pem"))?;
    Ok(RegisteredClient::with_private_key(text("client_id"), key))
}

/// A user agent without a person. The suite's authorization servers accept everyone and redirect at once.
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
