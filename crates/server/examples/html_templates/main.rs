//! Pages from templates: a guest book with a form. The templates escape all input, so that browsers show it
//! as text.
//!
//! ```sh
//! cargo run --release --example html_templates
//! curl -i http://127.0.0.1:8080/ -d 'name=Ada' --data-urlencode 'text=<script>alert(1)</script>'   # 303
//! curl http://127.0.0.1:8080/                                             # &lt;script&gt;alert(1)…
//! ```
//! Or open `http://127.0.0.1:8080/` in a browser.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::{Deserialize, Serialize};
use thruway_server::{Rejection, Request, Response, Router, Server, ServerError, StatusCode, with_state};

#[derive(Deserialize, Serialize)]
struct Entry {
    name: String,
    text: String,
}

struct GuestBook {
    templates: Environment<'static>,
    entries: Mutex<Vec<Entry>>,
}

impl GuestBook {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn app() -> Router {
    let book = Arc::new(GuestBook { templates: templates(), entries: Mutex::default() });
    Router::new().get("/", with_state(&book, show)).post("/", with_state(&book, sign))
}

/// Returns the templates, which are compiled into the program. The template engine escapes values, because
/// the names of the templates end in `.html`.
fn templates() -> Environment<'static> {
    let mut templates = Environment::new();
    for (name, source) in
        [("layout.html", include_str!("layout.html")), ("guest_book.html", include_str!("guest_book.html"))]
    {
        templates.add_template(name, source).expect("the built-in templates are valid");
    }
    templates
}

fn show(book: &GuestBook, _: &Request<'_>) -> Result<Response, StatusCode> {
    let entries = Value::from(Serde(&*book.entries()));
    page(&book.templates, "guest_book.html", context! { title => "Guest book", entries })
}

/// Saves the entry and redirects the browser to the page. So a reload of the page does not save the entry
/// again.
fn sign(book: &GuestBook, request: &Request<'_>) -> Result<Response, Rejection> {
    let entry: Entry = request.form()?;
    if entry.name.trim().is_empty() {
        return Err(Rejection::new(StatusCode::UNPROCESSABLE_CONTENT, "who are you?\n"));
    }
    book.entries().push(entry);
    Ok(Response::redirect(StatusCode::SEE_OTHER, "/"))
}

/// Renders the template `name`. Logs errors. The client gets no details of an error.
fn page(templates: &Environment<'_>, name: &str, values: Value) -> Result<Response, StatusCode> {
    match templates.get_template(name).and_then(|template| template.render(values)) {
        Ok(page) => Ok(Response::html(page).with_field("Content-Security-Policy", "default-src 'self'")),
        Err(error) => {
            tracing::error!(%error, name, "a template fails");
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}
