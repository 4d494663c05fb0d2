//! Serves a directory as a web site, with index files, conditional requests, ranges and precompressed files.
//!
//! ```sh
//! mkdir -p public && echo '<h1>Hello</h1>' >public/index.html && gzip -k public/index.html
//! cargo run --release --example static_site -- public
//! curl -i http://127.0.0.1:8080/
//! curl -i http://127.0.0.1:8080/ --compressed                # index.html.gz, unchanged
//! curl -i http://127.0.0.1:8080/ -H 'Range: bytes=0-3'       # 206
//! curl -i http://127.0.0.1:8080/ -H 'If-None-Match: "…"'     # 304, if you insert the `ETag` of an earlier response
//! curl -i --path-as-is http://127.0.0.1:8080/../Cargo.toml   # 404: nothing outside of the directory is served
//! ```

use std::error::Error;
use std::io;
use std::path::Path;

use thruway_server::{Files, Router, Server};

/// Returns an application for the site in `root`. Clients may cache the files in `assets`, because a file
/// there gets a new name when its content changes.
pub(crate) fn app(root: &Path) -> io::Result<Router> {
    let mut router =
        Router::new().mount("/", Files::new(root)?.cache_control("no-cache")).get("/healthz", || "ok\n");
    let assets = root.join("assets");
    if assets.is_dir() {
        router = router.mount("/assets", Files::new(assets)?.cache_control("max-age=31536000, immutable"));
    }
    Ok(router)
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let root = std::env::args_os().nth(1).unwrap_or_else(|| "public".into());
    Ok(Server::new(app(Path::new(&root))?).listen("127.0.0.1:8080")?.run()?)
}
