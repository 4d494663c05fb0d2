//! A server that requires JSON Web Tokens of one issuer, and a tool that requires a scope.
//!
//! A file contains the keys of the issuer (a JSON Web Key Set). The server reads the file again every
//! minute, because issuers change their keys.

use std::time::Duration;

use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Authorization, Call, JwtVerifier, McpServer};
use thruway_server::{Router, Server};

const ISSUER: &str = "https://login.example";

/// The public URL of the endpoint. The server accepts only tokens that were issued for this URL.
const RESOURCE: &str = "https://mcp.example/mcp";

fn whoami(call: &Call<'_>) -> String {
    call.identity().map_or_else(|| "nobody".to_owned(), |identity| identity.subject.clone())
}

pub(crate) fn app(verifier: JwtVerifier) -> Router {
    let server = McpServer::new("guarded", "1.0.0")
        .tool(Tool::new("whoami"), |_: serde_json::Value, call: &Call<'_>| whoami(call))
        .tool(Tool::new("erase").with_description("Erases everything"), || "everything is gone")
        .require_scopes("erase", ["admin"]);
    let authorization = Authorization::new(RESOURCE, [ISSUER], verifier).with_scopes(["use"]);
    Router::new()
        .get(&authorization.metadata_path(), authorization.metadata())
        .any("/mcp", server.endpoint().allow_host("mcp.example").authorize(authorization))
}

pub(crate) fn verifier(keys: &str) -> Result<JwtVerifier, String> {
    JwtVerifier::new(ISSUER, RESOURCE, keys)
        .map_err(|_| "the file is not a valid JSON Web Key Set".to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: guarded JWKS.json")?;
    let verifier = verifier(&std::fs::read_to_string(&path)?)?;
    let rotating = verifier.clone();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_mins(1));
            let replaced =
                std::fs::read_to_string(&path).is_ok_and(|keys| rotating.replace_keys(&keys).is_ok());
            if !replaced {
                eprintln!("cannot use the keys in {path}, keeping the previous keys");
            }
        }
    });
    Server::new(app(verifier)).listen("127.0.0.1:8080")?.run()?;
    Ok(())
}
