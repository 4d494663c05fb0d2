//! The application of the `axum` peer on Thruway's engine. The engine adds the `Server` header.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use mimalloc::MiMalloc;
use thruway_server::{ListenAddr, Server, ServerError, Tower};

const TEXT: HeaderValue = HeaderValue::from_static(contract::TEXT);

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), ServerError> {
    let address = ListenAddr::from(contract::listen_address());
    Server::new(Tower::new(router())).listen_on(address).workers(1).run()
}

fn router() -> Router {
    Router::new().route("/plaintext", get(plaintext)).route("/json", get(json)).route("/echo", post(echo))
}

async fn plaintext() -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], contract::PLAINTEXT)
}

async fn json() -> impl IntoResponse {
    Json(contract::GREETING)
}

async fn echo(content: Body) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], content)
}
