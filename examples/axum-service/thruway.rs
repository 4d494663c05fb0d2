//! The service of `axum.rs` on the router of Thruway.
//!
//! ```sh
//! cargo run --release -p thruway-server --example axum_service
//! curl -i http://127.0.0.1:8080/notes -H 'Authorization: Bearer token-of-ada' --json '{"title": "milk"}'
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use thruway_server::extractors::{Extension, Path, Query, State};
use thruway_server::layers::{Next, from_fn};
use thruway_server::{
    IntoResponse, Json, OwnedRequest, OwnedRequestHead, Response, Router, Server, ServerError, StatusCode,
};

#[derive(Clone, Serialize, Deserialize)]
struct Note {
    title: String,
}

#[derive(Clone)]
struct User(String);

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<HashMap<String, Vec<Note>>>>);

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    contains: String,
}

pub(crate) fn app() -> Router {
    let notes = Router::new()
        .with_state(Notes::default())
        .get("/", list)
        .post("/", create)
        .get("/{index}", read)
        .layer(from_fn(sign_in));
    Router::new().mount("/notes", notes).get("/health", || "healthy")
}

async fn sign_in(mut request: OwnedRequest, next: Next) -> Response {
    let token = request.field("Authorization").and_then(|value| value.as_str());
    let user = match token.and_then(|value| value.strip_prefix("Bearer ")) {
        Some("token-of-ada") => User("ada".to_owned()),
        Some("token-of-bob") => User("bob".to_owned()),
        _ => return Response::new(StatusCode::UNAUTHORIZED).with_field("WWW-Authenticate", "Bearer"),
    };
    request.extensions_mut().insert(user);
    next.run(request).await
}

// Handlers that do not wait need no `async`.
fn list(
    State(notes): State<Notes>,
    Extension(user): Extension<User>,
    Query(filter): Query<Filter>,
) -> Json<Vec<Note>> {
    Json(notes.of(&user, |notes| {
        notes.iter().filter(|note| note.title.contains(&filter.contains)).cloned().collect()
    }))
}

async fn create(
    State(notes): State<Notes>,
    Extension(user): Extension<User>,
    head: OwnedRequestHead,
    Json(note): Json<Note>,
) -> impl IntoResponse {
    let index = notes.of(&user, |notes| {
        notes.push(note);
        notes.len() - 1
    });
    let client =
        head.as_head().field_lines.field("User-Agent").and_then(|value| value.as_str()).unwrap_or("none");
    let response = Response::text(format!("created by {client}")).with_status(StatusCode::CREATED);
    response.with_field("Location", format!("/notes/{index}"))
}

fn read(
    State(notes): State<Notes>,
    Extension(user): Extension<User>,
    Path(index): Path<usize>,
) -> Option<Json<Note>> {
    notes.of(&user, |notes| notes.get(index).cloned()).map(Json)
}

impl Notes {
    /// Calls `act` with the notes of `user`.
    fn of<R>(&self, user: &User, act: impl FnOnce(&mut Vec<Note>) -> R) -> R {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(notes.entry(user.0.clone()).or_default())
    }
}

fn main() -> Result<(), ServerError> {
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}
