//! `may_minihttp` with one worker.
//!
//! It ignores `Connection` and never closes a connection.

use std::io;

use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};
use mimalloc::MiMalloc;

/// Stack size of a coroutine in machine words, as in the crate's own benchmark.
const STACK_WORDS: usize = 0x1000;

/// Number of coroutines kept for reuse, as in the crate's own benchmark.
const COROUTINES_KEPT: usize = 500;

struct Peer;

impl HttpServiceFactory for Peer {
    type Service = Self;

    fn new_service(&self, _id: usize) -> Self {
        Self
    }
}

impl HttpService for Peer {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        match request.path() {
            "/plaintext" => {
                response.header("Content-Type: text/plain").body(contract::PLAINTEXT);
            }
            "/json" => {
                response
                    .header("Content-Type: application/json")
                    .body_vec(serde_json::to_vec(&contract::GREETING)?);
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> io::Result<()> {
    may::config().set_workers(1).set_pool_capacity(COROUTINES_KEPT).set_stack_size(STACK_WORDS);
    Peer.start(contract::listen_address())?.join().expect("the server thread should not panic");
    Ok(())
}
