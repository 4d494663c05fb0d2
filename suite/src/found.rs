//! Finds the servers on this machine with their versions, builds them if that is wanted, and describes
//! missing ones.

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

/// The servers that are found, ours first, and the missing ones.
pub(crate) struct FoundServers {
    pub(crate) servers: Vec<Found>,
    pub(crate) left_out: Vec<Omission>,
}

impl FoundServers {
    /// Looks for the peers that `args` and `cases` ask for; `peers` is the folder in which they are built.
    pub(crate) fn look(
        args: &SuiteArgs,
        cases: &[Case],
        peers: Option<&Path>,
        runner: Runner<'_>,
    ) -> anyhow::Result<Self> {
        if let Some(peers) = peers {
            let shown = peers.display();
            ensure!(peers.is_dir(), "there is no directory `{shown}`: `--peers-from` is the folder `peers`");
        }
        let mut finds = Self { servers: Vec::new(), left_out: Vec::new() };
        for peer in args.chosen_peers(cases)? {
            if args.build && peer.program.place().is_some() {
                eprintln!("preparing {}", peer.name);
            }
            let built =
                peers.filter(|_| args.build).map_or(Ok(()), |peers| build(&peer.program, peers, runner));
            match built.and_then(|()| find(peer, args.program.as_deref(), peers)) {
                Ok(program) => {
                    let version = peer.version_of(&program, peers);
                    finds.servers.push(Found { peer, program, version });
                }
                Err(error) if peer.is_ours() => return Err(error),
                Err(error) => {
                    let because = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
                    finds.left_out.push(Omission { what: peer.name.clone(), because });
                }
            }
        }
        Ok(finds)
    }
}

/// Returns the place of a program.
fn find(peer: &Peer, ours: Option<&Path>, peers: Option<&Path>) -> anyhow::Result<PathBuf> {
    match (&peer.program, ours) {
        (Program::Ours(_), Some(program)) => {
            ensure!(is_program(program), "`{}` is no program", program.display());
            Ok(program.canonicalize()?)
        }
        (Program::Ours(name), None) => {
            let beside = env::current_exe()?.with_file_name(name);
            if beside.is_file() { Ok(beside) } else { on_path(name).context("name it with `--program`") }
        }
        (Program::Installed(name), _) => on_path(name),
        (built, _) => {
            let peers = peers.context("no `--peers-from` says where peers were built")?;
            // It is started in a directory of its own. The link of an environment of Python must not be
            // followed.
            let program = absolute(peers.join(built.place().unwrap_or_default()))?;
            let shown = program.display();
            ensure!(is_program(&program), "`{shown}` was not built: `cargo xtask bench` builds it");
            Ok(program)
        }
    }
}
