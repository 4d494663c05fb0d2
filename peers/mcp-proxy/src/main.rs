//! The crate mcp-proxy with three members at the same address. Arguments: `--listen ADDR --backend ADDR`.

use anyhow::Context as _;
use axum::Router;
use mcp_proxy::ProxyBuilder;
use mimalloc::MiMalloc;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let backend = std::env::args().skip_while(|argument| argument != "--backend").nth(1);
    let url = format!("http://{}/mcp", backend.context("the argument `--backend ADDR` is missing")?);
    let builder = ["one", "two", "three"]
        .iter()
        .fold(ProxyBuilder::new("bench"), |builder, name| builder.http_backend(*name, &url));
    let (router, _sessions) = builder.build().await?.into_router();
    let listener = TcpListener::bind(contract::listen_address()).await?;
    Ok(axum::serve(listener, Router::new().nest("/mcp", router)).await?)
}
