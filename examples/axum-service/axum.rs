//! A service with axum: notes of users, with a token for each user. `thruway.rs` in this directory is the same service
//! on the router of Thruway. On hyper, `axum::serve(listener, app())` runs this service. On Thruway,
//! `Server::new(Tower::new(app()))` runs it without changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

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
    Router::new()
        .route("/notes", get(list).post(create))
        .route("/notes/{index}", get(read))
        .layer(from_fn(sign_in))
        .route("/health", get(|| async { "healthy" }))
        .with_state(Notes::default())
}

async fn sign_in(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let user = match token.and_then(|value| value.strip_prefix("Bearer ")) {
        Some("token-of-ada") => User("ada".to_owned()),
        Some("token-of-bob") => User("bob".to_owned()),
        _ => return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response(),
    };
    request.extensions_mut().insert(user);
    next.run(request).await
}

async fn list(
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
    headers: HeaderMap,
    Json(note): Json<Note>,
) -> impl IntoResponse {
    let index = notes.of(&user, |notes| {
        notes.push(note);
        notes.len() - 1
    });
    let client = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("none");
    let location = [(header::LOCATION, format!("/notes/{index}"))];
    (StatusCode::CREATED, location, format!("created by {client}"))
}

async fn read(
    State(notes): State<Notes>,
    Extension(user): Extension<User>,
    Path(index): Path<usize>,
) -> Result<Json<Note>, StatusCode> {
    notes.of(&user, |notes| notes.get(index).cloned()).map(Json).ok_or(StatusCode::NOT_FOUND)
}

impl Notes {
    /// Calls `act` with the notes of `user`.
    fn of<R>(&self, user: &User, act: impl FnOnce(&mut Vec<Note>) -> R) -> R {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(notes.entry(user.0.clone()).or_default())
    }
}
