//! An unchanged axum application below a path of this server. Extractors, state, middleware and streams work
//! as usual. The server has other routes next to the application.
//!
//! ```sh
//! cargo run --release --example axum_mounted
//! curl -i http://127.0.0.1:8080/                                         # a route of this server
//! curl -i http://127.0.0.1:8080/api/counters/visits -X POST --json '{"by": 2}'
//! curl -i http://127.0.0.1:8080/api/counters/visits
//! curl -i http://127.0.0.1:8080/api/upper --data 'shouted back as it arrives'
//! ```
//!
//! A server with only the axum application needs no router: `Server::new(Tower::new(application()))`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::TryStreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_server::{ClientAddr, Server, ServerError, Tower};

// the axum application

type Counters = Arc<Mutex<HashMap<String, i64>>>;

#[derive(Deserialize)]
struct Increment {
    by: i64,
}

fn application() -> Router {
    Router::new()
        .route("/counters/{name}", get(read).post(increment))
        .route("/upper", post(upper))
        .route("/client", get(client))
        .layer(from_fn(mark))
        .with_state(Counters::default())
}

async fn read(State(counters): State<Counters>, Path(name): Path<String>) -> Result<Json<Value>, StatusCode> {
    let counters = counters.lock().expect("no thread panics while it holds the lock");
    let count = counters.get(&name).ok_or(StatusCode::NOT_FOUND)?;
    Ok(Json(json!({ name: count })))
}

async fn increment(
    State(counters): State<Counters>,
    Path(name): Path<String>,
    Json(increment): Json<Increment>,
) -> impl IntoResponse {
    let mut counters = counters.lock().expect("no thread panics while it holds the lock");
    let count = counters.entry(name.clone()).or_default();
    *count += increment.by;
    (StatusCode::CREATED, Json(json!({ name: *count })))
}

async fn upper(content: Body) -> Body {
    Body::from_stream(content.into_data_stream().map_ok(|piece| piece.to_ascii_uppercase()))
}

async fn client(Extension(client): Extension<ClientAddr>) -> String {
    client.to_string()
}

async fn mark(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert("x-answered-by", HeaderValue::from_static("axum"));
    response
}

// the routes of this server

pub(crate) fn app() -> thruway_server::Router {
    let axum = Tower::new(application()).with_extensions(|connection, extensions| {
        // With the server of axum, handlers get the client address from `ConnectInfo`.
        extensions.insert(connection.client);
    });
    thruway_server::Router::new().get("/", || "axum answers below /api\n").mount("/api", axum)
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}
