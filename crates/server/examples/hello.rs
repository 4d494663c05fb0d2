//! The smallest server: fixed text, and a path with a parameter.
//!
//! ```sh
//! cargo run --release --example hello
//! curl http://127.0.0.1:8080/
//! curl http://127.0.0.1:8080/hello/Ada
//! ```

use thruway_server::{Request, Response, Router, Server, ServerError};

pub(crate) fn app() -> Router {
    Router::new().get("/", || "Hello, World!\n").get("/hello/{name}", hello)
}

fn hello(request: &Request<'_>) -> Response {
    Response::text(format_args!("Hello, {}!\n", request.parameter("name")))
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}
