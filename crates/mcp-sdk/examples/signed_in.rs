//! A client of a server that requires tokens. Either a person logs in with a browser, or the program logs
//! in with an id and a secret from the authorization server `ISSUER`.

use std::error::Error;

use thruway_mcp_sdk::McpClient;
use thruway_mcp_sdk::oauth::{LoopbackRedirect, OAuth, RegisteredClient};

/// Returns the settings with which a person logs in. The program prints a URL, which the person opens in
/// a browser.
fn person() -> OAuth {
    OAuth::login(LoopbackRedirect::new(|url| println!("to log in, open {url}"))).client_name("signed_in")
}

/// Returns the settings with which the program logs in. The client sends the secret only to `issuer`,
/// even if the MCP server names another authorization server.
pub(crate) fn program(id: String, secret: String, issuer: String) -> OAuth {
    OAuth::client_credentials(RegisteredClient::with_secret(id, secret).of_issuer(issuer))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: signed_in URL [ID SECRET ISSUER]";
    let url = arguments.next().ok_or(usage)?;
    let oauth = match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(id), Some(secret), Some(issuer)) => program(id, secret, issuer),
        (None, ..) => person(),
        _ => return Err(usage.into()),
    };
    let client = McpClient::builder().oauth(oauth).http(&url);
    for tool in client.list_tools().await? {
        println!("{}", tool.name);
    }
    client.close().await;
    Ok(())
}
