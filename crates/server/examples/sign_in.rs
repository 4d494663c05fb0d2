//! A JSON API with extractors: the arguments of a handler are read from the path, the query, the body and the
//! state. A layer from a function checks the token of each request, and passes the user to the handlers.
//!
//! ```sh
//! cargo run --release --example sign_in
//! curl -i http://127.0.0.1:8080/tasks                                    # 401
//! curl -i http://127.0.0.1:8080/tasks -H 'Authorization: Bearer ada-token' --json '{"title": "milk"}'
//! curl -i 'http://127.0.0.1:8080/tasks?contains=il' -H 'Authorization: Bearer ada-token'
//! curl -i http://127.0.0.1:8080/tasks/0 -H 'Authorization: Bearer bob-token'       # 404: Bob has no tasks
//! curl -i http://127.0.0.1:8080/tasks/x -H 'Authorization: Bearer ada-token'       # 400
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use thruway_server::extractors::{Extension, Path, Query, State};
use thruway_server::layers::{Layered, Next, from_fn_with_state};
use thruway_server::{IntoResponse, Json, OwnedRequest, Response, Router, Server, ServerError, StatusCode};

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    title: String,
}

/// The user of a request. A layer adds this value.
#[derive(Clone, PartialEq, Eq, Hash)]
struct User(String);

/// The tasks of each user. A real application would use a database.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<HashMap<User, Vec<Task>>>>);

/// The tokens and their users. A real application would verify signed tokens, as the example `jwt_route` does.
#[derive(Clone)]
struct Tokens(Arc<HashMap<String, User>>);

pub(crate) fn app() -> Layered {
    let tokens = ["ada", "bob"].map(|name| (format!("{name}-token"), User(name.to_owned())));
    Router::new()
        .with_state(Tasks::default())
        .get("/tasks", list)
        .post("/tasks", create)
        .get("/tasks/{index}", read)
        .layer(from_fn_with_state(Tokens(Arc::new(tokens.into())), sign_in))
}

/// Responds 401 to a request without a valid token. Otherwise passes the user to the handler.
async fn sign_in(State(tokens): State<Tokens>, mut request: OwnedRequest, next: Next) -> Response {
    let authorization = request.field("Authorization").and_then(|value| value.as_str());
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    let Some(user) = token.and_then(|token| tokens.0.get(token)).cloned() else {
        return Response::new(StatusCode::UNAUTHORIZED).with_field("WWW-Authenticate", "Bearer");
    };
    request.extensions_mut().insert(user);
    next.run(request).await
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    contains: String,
}

fn list(
    State(tasks): State<Tasks>,
    Extension(user): Extension<User>,
    Query(filter): Query<Filter>,
) -> Json<Vec<Task>> {
    let matching = |task: &Task| task.title.contains(&filter.contains);
    Json(tasks.of(&user, |tasks| tasks.iter().filter(|task| matching(task)).cloned().collect()))
}

async fn create(
    State(tasks): State<Tasks>,
    Extension(user): Extension<User>,
    Json(task): Json<Task>,
) -> impl IntoResponse {
    let index = tasks.of(&user, |tasks| {
        tasks.push(task);
        tasks.len() - 1
    });
    Response::new(StatusCode::CREATED).with_field("Location", format!("/tasks/{index}"))
}

fn read(
    State(tasks): State<Tasks>,
    Extension(user): Extension<User>,
    Path(index): Path<usize>,
) -> Option<Json<Task>> {
    tasks.of(&user, |tasks| tasks.get(index).cloned()).map(Json)
}

impl Tasks {
    /// Calls `act` with the tasks of `user`.
    fn of<R>(&self, user: &User, act: impl FnOnce(&mut Vec<Task>) -> R) -> R {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(tasks.entry(user.clone()).or_default())
    }
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}
