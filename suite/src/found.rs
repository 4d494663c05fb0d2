//! Finds the servers on this machine with their versions, and lists the missing ones. Builds the servers
//! first if the user requests it.

use std::env;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context as _, ensure};

use crate::args::SuiteArgs;
use crate::build::build;
use crate::case::Case;
use crate::peers::{Peer, Program};
use crate::process::{Runner, is_program, on_path};
use crate::results::Omission;

/// A server that can be started.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) peer: &'static Peer,
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}

/// The servers that were found, Thruway first, and the missing ones.
pub(crate) struct FoundServers {
    pub(crate) servers: Vec<Found>,
    pub(crate) left_out: Vec<Omission>,
}

impl FoundServers {
    /// Looks for the servers for `args` and `cases`. `peers` is the folder with built peers.
    pub(crate) fn look(
        args: &SuiteArgs,
        cases: &[Case],
        peers: Option<&Path>,
        runner: Runner<'_>,
    ) -> anyhow::Result<Self> {
        if let Some(peers) = peers {
            let path = peers.display();
            ensure!(peers.is_dir(), "`{path}` is not a directory: `--peers-from` must be the folder `peers`");
        }
        let mut found = Self { servers: Vec::new(), left_out: Vec::new() };
        for peer in args.chosen_peers(cases)? {
            if args.build && peer.program.build_path().is_some() {
                eprintln!("preparing {}", peer.name);
            }
            let built =
                peers.filter(|_| args.build).map_or(Ok(()), |peers| build(&peer.program, peers, runner));
            match built.and_then(|()| find(peer, args.program.as_deref(), peers)) {
                Ok(program) => {
                    let version = peer.version_of(&program, peers);
                    found.servers.push(Found { peer, program, version });
                }
                Err(error) if peer.is_ours() => return Err(error),
                Err(error) => {
                    let because = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
                    found.left_out.push(Omission { what: peer.name.clone(), because });
                }
            }
        }
        Ok(found)
    }
}

/// Returns the path of a program.
fn find(peer: &Peer, ours: Option<&Path>, peers: Option<&Path>) -> anyhow::Result<PathBuf> {
    match (&peer.program, ours) {
        (Program::Ours(_), Some(program)) => {
            ensure!(is_program(program), "`{}` is not a program", program.display());
            Ok(program.canonicalize()?)
        }
        (Program::Ours(name), None) => {
            let beside = env::current_exe()?.with_file_name(name);
            if beside.is_file() { Ok(beside) } else { on_path(name).context("set the path with `--program`") }
        }
        (Program::Installed(name), _) => on_path(name),
        (built, _) => {
            let peers = peers.context("built peers need `--peers-from`")?;
            // The path is absolute, because servers start in another directory. This code does not resolve
            // the link of a Python environment, because Python finds its packages through the link.
            let program = absolute(peers.join(built.build_path().unwrap_or_default()))?;
            let path = program.display();
            ensure!(is_program(&program), "`{path}` does not exist: build it with `cargo xtask bench`");
            Ok(program)
        }
    }
}
