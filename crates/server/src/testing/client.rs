//! The client of a service under test.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use thruway_message::Method;

use super::connection::TestConnection;
use super::in_process::InProcessServer;
use super::request::{CLIENT, TestRequest};
use crate::config::Config;
use crate::handler::IntoHandler;

/// A client that calls a handler without a port: see the [module](super) for an example.
pub struct TestClient {
    server: Rc<InProcessServer>,
}

macro_rules! methods {
    ($($name:ident $method:ident $text:literal)*) => {
        $(
            #[doc = concat!("Starts a ", $text, " request to `path`, which can contain a query.")]
            pub fn $name(&self, path: &str) -> TestRequest<'_> {
                self.request(Method::$method, path)
            }
        )*
    };
}

impl TestClient {
    /// Creates a client of `handler`, usually a [`Router`](crate::Router), with the default [`Config`].
    pub fn new<M>(handler: impl IntoHandler<M>) -> Self {
        Self::with_config(handler, Config::default())
    }

    /// Creates a client of `handler` with the limits and timeouts of `config`.
    pub fn with_config<M>(handler: impl IntoHandler<M>, config: Config) -> Self {
        Self { server: Rc::new(InProcessServer::new(handler.into_handler(), config)) }
    }

    methods! {
        get Get "GET"
        head Head "HEAD"
        post Post "POST"
        put Put "PUT"
        patch Patch "PATCH"
        delete Delete "DELETE"
        options Options "OPTIONS"
    }

    /// Starts a request with any method. `path` is the request target, so it can also be a URL.
    pub fn request<'c>(&'c self, method: Method<'c>, path: &str) -> TestRequest<'c> {
        TestRequest::new(&self.server, method, path)
    }

    /// Opens a connection, to send and receive bytes directly.
    pub fn connect(&self) -> TestConnection {
        TestConnection::new(&self.server, CLIENT)
    }

    /// Runs the server until `future` is complete. Use it to wait for a task that a handler has started, or
    /// for a time. Returns the result of `future`.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.server.run(cx);
            future.as_mut().poll(cx)
        })
        .await
    }
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient").finish_non_exhaustive()
    }
}
