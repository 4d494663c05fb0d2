//! A client of a server that wants tokens: a person logs in with a browser, or the program has an id and a secret.
//!
//! `signed_in URL` or `signed_in URL ID SECRET`

use std::error::Error;

use thruway_mcp_sdk::McpClient;
use thruway_mcp_sdk::oauth::{LoopbackRedirect, OAuth, RegisteredClient};

/// Whoever reads what is printed logs in.
fn person() -> OAuth {
    OAuth::login(LoopbackRedirect::new(|url| println!("to log in, open {url}"))).client_name("signed_in")
}

/// The authorization server knows the program.
pub(crate) fn program(id: String, secret: String) -> OAuth {
    OAuth::client_credentials(RegisteredClient::with_secret(id, secret))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: signed_in URL [ID SECRET]")?;
    let oauth = match (arguments.next(), arguments.next()) {
        (Some(id), Some(secret)) => program(id, secret),
        _ => person(),
    };
    let client = McpClient::builder().oauth(oauth).http(&url);
    for tool in client.list_tools().await? {
        println!("{}", tool.name);
    }
    client.close().await;
    Ok(())
}
