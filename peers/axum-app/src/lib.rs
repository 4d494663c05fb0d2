//! The axum application of the peers `axum` and `axum-on-thruway`. Both serve exactly this router, so a comparison
//! shows only the engines.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_TYPE, SERVER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};

const AXUM: HeaderValue = HeaderValue::from_static("axum");
const TEXT: HeaderValue = HeaderValue::from_static(contract::TEXT);

#[derive(Clone)]
struct App {
    greeting: Arc<str>,
}

#[derive(serde::Deserialize)]
struct Page {
    page: u32,
}

#[derive(serde::Serialize)]
struct User {
    id: u64,
    page: u32,
    greeting: String,
}

#[derive(serde::Deserialize)]
struct Download {
    bytes: usize,
}

/// Returns the application.
pub fn router() -> Router {
    Router::new()
        .route("/plaintext", get(plaintext))
        .route("/json", get(json))
        .route("/users/{id}", get(user))
        .route("/download", get(download))
        .route("/echo", post(echo))
        .route("/mcp", post(fixed))
        .with_state(App { greeting: contract::PLAINTEXT.into() })
}

async fn plaintext() -> impl IntoResponse {
    ([(SERVER, AXUM), (CONTENT_TYPE, TEXT)], contract::PLAINTEXT)
}

async fn json() -> impl IntoResponse {
    ([(SERVER, AXUM)], Json(contract::GREETING))
}

/// Uses the extractors for the state, the path and the query, and responds with JSON.
async fn user(
    State(app): State<App>,
    Path(id): Path<u64>,
    Query(Page { page }): Query<Page>,
) -> impl IntoResponse {
    ([(SERVER, AXUM)], Json(User { id, page, greeting: app.greeting.to_string() }))
}

/// Sends a body of the requested length, at most 1 MiB.
async fn download(Query(Download { bytes }): Query<Download>) -> impl IntoResponse {
    let content = DOWNLOAD.get(..bytes).ok_or(StatusCode::BAD_REQUEST)?;
    Ok::<_, StatusCode>(([(SERVER, AXUM), (CONTENT_TYPE, TEXT)], Bytes::from_static(content)))
}

/// Sends a fixed MCP response without reading the request. This shows the lower bound for the cost of an MCP
/// call.
async fn fixed(_: Bytes) -> impl IntoResponse {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], contract::FIXED_MCP_RESPONSE)
}

async fn echo(content: Body) -> impl IntoResponse {
    ([(SERVER, AXUM), (CONTENT_TYPE, TEXT)], content)
}

static DOWNLOAD: [u8; 1 << 20] = [b'x'; 1 << 20];
