//! The command `thruway`.

mod demo;

use clap::Parser;
use thruway_server::Server;

#[derive(Parser)]
struct Args {
    command: String,
    #[arg(long)]
    listen: Vec<String>,
    #[arg(long)]
    workers: Option<usize>,
}

fn main() {
    let args = Args::parse();
    let mut server = Server::new(demo::router());
    for l in &args.listen {
        server = server.listen(l).unwrap();
    }
    if let Some(n) = args.workers {
        server = server.workers(n);
    }
    if let Err(e) = server.run() {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}
