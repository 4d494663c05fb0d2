//! Client with the official Rust SDK. It uses all features of the demo server in both eras, over HTTP and
//! stdio.
//!
//! Arguments: the URL of a server, and the command of a server. With `--calls FILE` instead of the command, the client
//! makes the calls in a file.

mod client;
mod connection;
mod features;
mod members;
mod tools;

use std::time::Duration;

use anyhow::Context as _;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientServiceExt as _, RoleClient};
use tokio::process::Command;
use tokio::time::timeout;

use client::Client;
use connection::{Era, expect};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (url, program) = (
        arguments.next().context("the URL is missing")?,
        arguments.next().context("the command is missing")?,
    );
    if program == "--calls" {
        return members::call_all(&url, &arguments.next().context("the file is missing")?).await;
    }
    let arguments: Vec<_> = arguments.collect();
    for era in [Era::Modern, Era::Legacy] {
        let revision = era.revision();
        let http = StreamableHttpClientTransport::from_uri(url.as_str());
        use_all(era, http).await.with_context(|| format!("{revision} over HTTP"))?;
        let mut command = Command::new(&program);
        command.args(&arguments);
        let stdio = TokioChildProcess::new(command)?;
        use_all(era, stdio).await.with_context(|| format!("{revision} over stdio"))?;
    }
    println!("both eras over HTTP and stdio");
    Ok(())
}

/// Uses all features of the demo server.
async fn use_all<T, E, A>(era: Era, transport: T) -> anyhow::Result<()>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let (client, mut notifications) = Client::new();
    let connection = client.serve_with_lifecycle(transport, era.lifecycle()).await?;
    let server = connection.peer_info().context("the server did not send its name")?;
    expect("the revision", &server.protocol_version, &era.revision())?;
    let name = server.server_info.as_ref().map(|info| info.name.as_str());
    expect("the server's name", &name, &Some("thruway-demo"))?;
    tools::use_all(&connection, &mut notifications).await?;
    features::use_all(&connection).await?;
    features::subscribe(era, &connection, &mut notifications).await?;
    tools::cancel_call(&connection).await?;
    // This timeout is shorter than the timeout after which rmcp kills a server that does not exit.
    timeout(CLOSE_TIMEOUT, connection.cancel()).await.context("closing took too long")??;
    Ok(())
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
