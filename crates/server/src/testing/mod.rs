//! Tests of services without a port.
//!
//! [`TestClient`] calls a [`Router`](crate::Router) or another handler. It sends bytes through the HTTP/1.1
//! connections of this crate, in memory. Therefore limits, header checks, `HEAD`, 404 and 405, layers and
//! extractors behave as in a [`Server`](crate::Server).
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use thruway_server::testing::{TestClient, TestError};
//! use thruway_server::{Json, Router, StatusCode};
//!
//! #[derive(Deserialize, Serialize, PartialEq, Debug)]
//! struct User {
//!     name: String,
//! }
//!
//! async fn create(Json(user): Json<User>) -> (StatusCode, Json<User>) {
//!     (StatusCode::CREATED, Json(user))
//! }
//!
//! // In a test, this is the attribute `#[tokio::test]`.
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), TestError> {
//!     let client = TestClient::new(Router::new().post("/users", create));
//!
//!     let ada = User { name: "Ada".to_owned() };
//!     let response = client.post("/users").json(&ada).send().await?;
//!     assert_eq!(response.status(), StatusCode::CREATED);
//!     assert_eq!(response.header("Content-Type"), Some("application/json"));
//!     assert_eq!(response.json::<User>().await?, ada);
//!
//!     let response = client.get("/users").send().await?;
//!     assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
//!     assert_eq!(response.header("Allow"), Some("POST, OPTIONS"));
//!     Ok(())
//! }
//! ```
//!
//! # Runtime
//! A test needs a tokio runtime with timers, such as the runtime of `#[tokio::test]`. It needs no
//! `LocalSet`: the client has its own. So handlers can call `tokio::task::spawn_local`, as on a worker of a
//! server.
//!
//! The server has no thread. It runs while the test waits for one of the following: [`TestRequest::send`],
//! the parts of a [`TestResponse`], a [`TestConnection`], or [`TestClient::run_until`]. Tasks that a handler
//! has started continue then too, until the client and its responses are dropped.
//!
//! Futures of the client are not `Send`. To send several requests at the same time, use `tokio::join!`.
//!
//! # Virtual time
//! The server reads the time from tokio. If the test pauses this time, timeouts pass at once: whenever all
//! tasks wait, tokio advances the time to the next timer. `start_paused` needs the feature `test-util` of
//! tokio.
//!
//! ```
//! # use std::time::Duration;
//! # use thruway_server::layers::Timeout;
//! # use thruway_server::testing::TestClient;
//! # use thruway_server::{Router, StatusCode};
//! async fn stuck() -> &'static str {
//!     std::future::pending().await
//! }
//!
//! // In a test, this is the attribute `#[tokio::test(start_paused = true)]`.
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     let router = Router::new().get("/", stuck).layer(Timeout::new(Duration::from_secs(30)));
//!     let response = TestClient::new(router).get("/").send().await.unwrap();
//!     assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
//! }
//! ```
//!
//! Of a [`Server`](crate::Server), the client leaves out the listeners, TLS, HTTP/2 and access logs.

mod error;
mod in_process;
mod watched;
mod connection;
mod request;
mod exchange;
mod event;
mod response;
mod client;

pub use client::TestClient;
pub use connection::TestConnection;
pub use error::TestError;
pub use event::TestEvent;
pub use request::TestRequest;
pub use response::TestResponse;
