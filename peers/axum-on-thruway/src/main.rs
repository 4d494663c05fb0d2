//! The application of the `axum` peer on Thruway's engine.

use axum_app::router;
use mimalloc::MiMalloc;
use thruway_server::{ListenAddr, Server, ServerError, Tower};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), ServerError> {
    let address = ListenAddr::from(contract::listen_address());
    Server::new(Tower::new(router())).listen_on(address).workers(1).run()
}
