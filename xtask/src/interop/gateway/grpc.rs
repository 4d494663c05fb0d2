//! gRPC through a gateway: a server and a client of `grpcio`, HTTP/2 on both sides.

use std::fs;
use std::process::Command;

use anyhow::Context as _;

use super::serve;
use crate::interop::check::{Check, Scene};
use crate::interop::packages;
use crate::server::Server;

/// What is installed first.
pub(super) const FULL_CHECKS: &[&Check] = &[&Check { client: "python3", what: "gRPC", run: grpc }];

fn grpc(scene: &Scene<'_>) -> anyhow::Result<String> {
    let python = packages::python("grpc", packages::GRPC, scene.stop)?;
    let script = scene.directory.join("grpc.py");
    fs::write(&script, SCRIPT)?;
    let path = script.to_str().context("the temporary directory's path is not UTF-8")?;
    let upstream =
        Server::start(&python, &["-I", path, "serve"], &scene.directory.join("grpc.log"), scene.stop)?;
    let config = scene.directory.join("grpc.toml");
    let url = upstream.url();
    fs::write(&config, CONFIG.replace("{upstream}", url.trim_start_matches("http://")))?;
    let gateway = serve(scene.program, &config, scene.directory, scene.stop)?;
    let mut command = Command::new(&python);
    command.arg("-I").arg(&script).arg(gateway.url());
    let said = scene.output("the client of gRPC", command)?;
    gateway.end(scene.stop)?;
    Ok(said.trim().to_owned())
}

const SCRIPT: &str = include_str!("../clients/grpc.py");

const CONFIG: &str = r#"
[[listeners]]
address = "127.0.0.1:0"
http2 = true

[[routes]]
path = "/"
upstream = "grpc"

[upstreams.grpc]
servers = ["{upstream}"]
http2 = true
"#;
