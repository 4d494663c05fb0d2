//! Where things are: the repository and the programs of this machine. Nothing is looked up by a fixed path.

use std::path::{Path, PathBuf};

/// The repository that this program was built from.
pub(super) fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// The program of this name, if it is installed.
pub(super) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}
