//! Tokens in a file that only its owner can read, so that one login lasts.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use thruway_mcp_sdk::oauth::{StoredToken, TokenStore};

use super::print;

/// A file of tokens, by the URL of the server and the grant.
pub(super) struct TokenFile(PathBuf);

type Tokens = BTreeMap<String, StoredToken>;

impl TokenFile {
    /// The file of this user; `None` if it is not known where that is.
    pub(super) fn at_home() -> Option<Self> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
        Some(Self(state.join("thruway/mcp_tokens.json")))
    }

    /// What cannot be read is nothing, and is written anew.
    fn read(&self) -> Tokens {
        fs::read(&self.0).ok().and_then(|octets| serde_json::from_slice(&octets).ok()).unwrap_or_default()
    }

    /// Replaces the file as a whole: nobody sees half of it, or may read it meanwhile.
    fn write(&self, tokens: &Tokens) -> io::Result<()> {
        if let Some(directory) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let new = self.0.with_extension(format!("{}.new", std::process::id()));
        // Left over from a process that had this number once.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(tokens)?)?;
        fs::rename(&new, &self.0)
    }
}

impl TokenStore for TokenFile {
    fn load(&self, key: &str) -> Option<StoredToken> {
        self.read().remove(key)
    }

    fn save(&self, key: &str, token: &StoredToken) {
        let mut tokens = self.read();
        tokens.insert(key.to_owned(), token.clone());
        if let Err(error) = self.write(&tokens) {
            print::to_stderr(&format!("warning: the token is not kept: `{}`: {error}", self.0.display()));
        }
    }
}
