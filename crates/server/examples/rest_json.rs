//! A collection of notes, with JSON over HTTP. Clients can list, create, read, replace and delete notes.
//! Error responses tell the client what is wrong.
//!
//! ```sh
//! cargo run --release --example rest_json
//! curl -i http://127.0.0.1:8080/notes --json '{"title": "milk", "text": "two litres"}'
//! curl -i http://127.0.0.1:8080/notes
//! curl -i http://127.0.0.1:8080/notes/1 -X PUT --json '{"title": "milk", "text": "three"}'
//! curl -i http://127.0.0.1:8080/notes --json '{"title": "milk"}'       # 409: the title is taken
//! curl -i http://127.0.0.1:8080/notes --json '{"text": "no title"}'    # 422: JSON, but not a note
//! curl -i http://127.0.0.1:8080/notes/1 -X DELETE
//! curl -i http://127.0.0.1:8080/notes/1                                # 404
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::json;
use thruway_server::{
    IntoResponse, Json, Rejection, Request, Response, Router, Server, ServerError, StatusCode, with_state,
};

/// A note in the form in which clients send it.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Note {
    title: String,
    #[serde(default)]
    text: String,
}

/// A note in the form in which the server returns it.
#[derive(Serialize)]
struct StoredNote {
    id: u64,
    #[serde(flatten)]
    note: Note,
}

/// The collection. A real application would use a database and `async` handlers.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<u64, Note>>);

pub(crate) fn app() -> Router {
    let notes = Arc::new(Notes::default());
    Router::new()
        .get("/notes", with_state(&notes, list))
        .post("/notes", with_state(&notes, create))
        .get("/notes/{id}", with_state(&notes, read))
        .put("/notes/{id}", with_state(&notes, replace))
        .delete("/notes/{id}", with_state(&notes, delete))
        .fallback(|| Problem::NotFound)
}

fn list(notes: &Notes, _: &Request<'_>) -> Json<Vec<StoredNote>> {
    Json(notes.lock().iter().map(|(id, note)| StoredNote { id: *id, note: note.clone() }).collect())
}

fn create(notes: &Notes, request: &Request<'_>) -> Result<Response, Problem> {
    let note = note_of(request)?;
    let mut notes = notes.lock();
    let id = notes.last_key_value().map_or(1, |(last, _)| last + 1);
    put(&mut notes, id, note.clone())?;
    let response = Response::json(&StoredNote { id, note }).with_status(StatusCode::CREATED);
    Ok(response.with_field("Location", format!("/notes/{id}")))
}

fn read(notes: &Notes, request: &Request<'_>) -> Result<Json<StoredNote>, Problem> {
    let id = id_of(request)?;
    let note = notes.lock().get(&id).cloned().ok_or(Problem::NotFound)?;
    Ok(Json(StoredNote { id, note }))
}

fn replace(notes: &Notes, request: &Request<'_>) -> Result<Json<StoredNote>, Problem> {
    let (id, note) = (id_of(request)?, note_of(request)?);
    let mut notes = notes.lock();
    if !notes.contains_key(&id) {
        return Err(Problem::NotFound);
    }
    put(&mut notes, id, note.clone())?;
    Ok(Json(StoredNote { id, note }))
}

fn delete(notes: &Notes, request: &Request<'_>) -> Result<StatusCode, Problem> {
    notes.lock().remove(&id_of(request)?).map(|_| StatusCode::NO_CONTENT).ok_or(Problem::NotFound)
}

/// Saves `note` under the id `id`, unless another note has the same title.
fn put(notes: &mut BTreeMap<u64, Note>, id: u64, note: Note) -> Result<(), Problem> {
    if notes.iter().any(|(other, kept)| *other != id && kept.title == note.title) {
        return Err(Problem::TitleTaken(note.title));
    }
    notes.insert(id, note);
    Ok(())
}

fn id_of(request: &Request<'_>) -> Result<u64, Problem> {
    request.parameter("id").parse().map_err(|_| Problem::NotFound)
}

fn note_of(request: &Request<'_>) -> Result<Note, Problem> {
    let note: Note = request.json()?;
    if note.title.trim().is_empty() { Err(Problem::TitleEmpty) } else { Ok(note) }
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reason for an error response.
enum Problem {
    NotFound,
    /// The body is not JSON (400), has another type (415), or is not a note (422).
    Rejected(Rejection),
    TitleEmpty,
    TitleTaken(String),
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "not found".to_owned()),
            Self::Rejected(rejection) => (rejection.status(), rejection.to_string()),
            Self::TitleEmpty => (StatusCode::UNPROCESSABLE_CONTENT, "`title` is empty".to_owned()),
            Self::TitleTaken(title) => {
                (StatusCode::CONFLICT, format!("a note with the title `{title}` already exists"))
            }
        };
        Response::json(&json!({ "error": message })).with_status(status)
    }
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}
