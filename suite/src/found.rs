//! Finds peers and tools on this machine with their versions, and describes missing ones.

use std::env;
use std::path::{Path, PathBuf, absolute};

use crate::results::Omission;

use crate::args::SuiteArgs;
use crate::case::{Case, ComparisonKind, OUR_SDK};
use crate::peers::{PEERS, Peer, Program};
use crate::process::{is_program, on_path};
use crate::terminal::Failure;
use crate::versions;

/// A server that can be started.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) peer: &'static Peer,
    pub(crate) program: PathBuf,
    pub(crate) version: String,
}

/// The servers that are found, ours first, and those that are missing.
pub(crate) struct FoundServers {
    pub(crate) servers: Vec<Found>,
    pub(crate) left_out: Vec<Omission>,
}

impl FoundServers {
    /// Looks for those peers that `args` ask for. Peers that some of `cases` cannot do without are always
    /// looked for.
    pub(crate) fn look(args: &SuiteArgs, cases: &[Case], unbuilt: &[Omission]) -> Result<Self, Failure> {
        check_names(&args.peers)?;
        let peers_from = peers_from(args);
        if let Some(directory) = peers_from.as_ref().filter(|directory| !directory.is_dir()) {
            let message = format!("there is no directory `{}` with peers", directory.display());
            return Err(
                Failure::new(message).with_hint("`--peers-from` is the folder `peers` of the repository")
            );
        }
        let mut finds = Self { servers: Vec::new(), left_out: unbuilt.to_vec() };
        for peer in PEERS.iter() {
            let is_ours = matches!(peer.program, Program::Ours(_));
            let is_unbuilt = unbuilt.iter().any(|left| left.what == peer.name);
            let takes_part = cases.iter().any(|case| peer.takes_part(case));
            let is_wanted = is_ours || is_needed(peer, cases) || is_asked_for(peer, args) && takes_part;
            if is_unbuilt || !is_wanted {
                continue;
            }
            match find(peer, args.program.as_deref(), peers_from.as_deref()) {
                Ok(program) => {
                    let version = versions::of_peer(peer, &program, peers_from.as_deref());
                    finds.servers.push(Found { peer, program, version });
                }
                Err(because) if is_ours => return Err(Failure::new(because)),
                Err(because) => finds.left_out.push(Omission { what: peer.name.clone(), because }),
            }
        }
        Ok(finds)
    }
}

/// Returns `true` if a peer may take part: all may unless the user names some.
pub(crate) fn is_asked_for(peer: &Peer, args: &SuiteArgs) -> bool {
    args.peers.is_empty() || args.peers.contains(&peer.name)
}

/// Returns `true` if some of the cases need this peer.
pub(crate) fn is_needed(peer: &Peer, cases: &[Case]) -> bool {
    let needs = |case: &Case| {
        case.ours == peer.name || case.between == ComparisonKind::Bridges && peer.name == OUR_SDK
    };
    cases.iter().any(needs)
}

/// Returns the folder `peers`, if it is named.
pub(crate) fn peers_from(args: &SuiteArgs) -> Option<PathBuf> {
    args.peers_from.clone().or_else(|| env::var_os(PEERS_VARIABLE).map(PathBuf::from))
}

/// Returns the `thruway` in the folder of this program, or else the one on the path.
fn beside_this_program(name: &str) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let beside = own.with_file_name(name);
    let found = if beside.is_file() { Some(beside) } else { on_path(name) };
    found.ok_or_else(|| {
        format!("cannot find `{name}`: build it with `cargo build --release -p {name}`, or name it with `--program`")
    })
}

/// No peer has the name `none`.
fn check_names(asked: &[String]) -> Result<(), Failure> {
    let known = || PEERS.iter().map(|peer| &*peer.name).chain(["none"]);
    let Some(unknown) = asked.iter().find(|name| !known().any(|known| known == *name)) else { return Ok(()) };
    let likeness = |name: &str| strsim::jaro_winkler(unknown, name);
    let closest = known().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = match closest.filter(|name| likeness(name) > 0.7) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::new(format!("no peer is called `{}`", unknown.escape_debug())).with_hint(hint))
}

fn find(peer: &Peer, ours: Option<&Path>, peers_from: Option<&Path>) -> Result<PathBuf, String> {
    match (&peer.program, peers_from) {
        (Program::Ours(name), _) => match ours {
            Some(program) if is_program(program) => program.canonicalize().map_err(|error| error.to_string()),
            Some(program) => Err(format!("`{}` is no program", program.display())),
            None => beside_this_program(name),
        },
        (Program::Installed(name), _) => {
            on_path(name).ok_or_else(|| format!("`{name}` is not on the `PATH`"))
        }
        (_, None) => Err(format!("no `--peers-from` (or ${PEERS_VARIABLE}) says where peers were built")),
        (built, Some(directory)) => {
            let program = directory.join(built.place().unwrap_or_default());
            let missing = || format!("`{}` was not built: `cargo xtask bench` builds it", program.display());
            // It is started in a directory of its own. The link of an environment of Python must not be
            // followed.
            absolute(&program).ok().filter(|program| is_program(program)).ok_or_else(missing)
        }
    }
}

const PEERS_VARIABLE: &str = "THRUWAY_PEERS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_words() {
        let built = PEERS.iter().find(|peer| peer.name == "hyper").unwrap();
        let nowhere = find(built, None, None).unwrap_err();
        assert!(nowhere.contains("--peers-from") && nowhere.contains("THRUWAY_PEERS"), "{nowhere}");
        let directory = tempfile::tempdir().unwrap();
        let unbuilt = find(built, None, Some(directory.path())).unwrap_err();
        assert!(unbuilt.contains("was not built: `cargo xtask bench` builds it"), "{unbuilt}");
        assert!(find(&PEERS[0], Some(directory.path()), None).unwrap_err().contains("is no program"));
    }

    #[test]
    fn names_are_known_or_something_close_is_meant() {
        assert!(check_names(&["nginx".to_owned(), "none".to_owned()]).is_ok());
        let said = |name: &str| check_names(&[name.to_owned()]).unwrap_err().to_string();
        assert!(said("ngnix").contains("did you mean `nginx`?"));
        assert!(said("???").contains("there are thruway, nginx"));
    }
}
