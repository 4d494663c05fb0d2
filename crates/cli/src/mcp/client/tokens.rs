//! Stores OAuth tokens in a file, so that the next command needs no new login. Only the owner of the file can
//! read the file. Several processes can share the file.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp_sdk::oauth::{Locking, StoredToken, TokenLock, TokenStore};

use super::print;

/// Path of a file with tokens. Each token has a key, which consists of the server URL and the OAuth grant.
pub(super) struct TokenFile(PathBuf);

/// Map from keys to tokens. The tokens remain unparsed JSON, because a newer version of Thruway may have
/// written some tokens in another format.
type Tokens = BTreeMap<String, Box<RawValue>>;

impl TokenFile {
    /// Returns the token file of the current user, or `None` if neither `XDG_STATE_HOME` nor `HOME` is an
    /// absolute path.
    pub(super) fn of_user() -> Option<Self> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
        Some(Self(state.join("thruway/mcp_tokens.json")))
    }

    /// Reads all tokens. Returns an error if the file cannot be read. In this case, callers must not replace
    /// the file, because they would lose the tokens of all other servers.
    fn read(&self) -> io::Result<Tokens> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tokens::new()),
            Err(error) => Err(error),
        }
    }

    fn find(&self, key: &str) -> io::Result<Option<StoredToken>> {
        let token = self.read()?.remove(key);
        Ok(token.map(|token| serde_json::from_str(token.get())).transpose()?)
    }

    /// Stores a token. Uses a lock, because another process may store the token of another server at the same
    /// time.
    fn store(&self, key: &str, token: &StoredToken) -> io::Result<()> {
        let _lock = self.lock_file("")?.wait()?;
        let mut tokens = self.read()?;
        tokens.insert(key.to_owned(), serde_json::value::to_raw_value(token)?);
        self.write(&tokens)
    }

    /// Replaces the token file atomically, so that no process reads an incomplete file. The new file has mode
    /// 0600 from its creation, so other users can never read the file.
    fn write(&self, tokens: &Tokens) -> io::Result<()> {
        let new = self.0.with_extension(format!("{}.new", std::process::id()));
        // An earlier process with the same process id may have left a file at the path `new`.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(tokens)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.0)
    }

    /// Opens a lock file; `name` is a part of its file name. The token file itself cannot be the lock file,
    /// because each write replaces the token file. No process removes a lock file. Otherwise, one process
    /// could lock the removed file, and another process could lock the new file.
    fn lock_file(&self, name: &str) -> io::Result<LockFile> {
        let path = self.0.with_extension(format!("{name}lock"));
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(Path::new("/")))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(path).map(LockFile)
    }

    fn warn(&self, what: &str, error: &io::Error) {
        print::to_stderr(&format!("warning: {what} `{}`: {error}", self.0.display()));
    }
}

impl TokenStore for TokenFile {
    fn load(&self, key: &str) -> Option<StoredToken> {
        self.find(key).unwrap_or_else(|error| {
            self.warn("cannot read the token file", &error);
            None
        })
    }

    fn save(&self, key: &str, token: &StoredToken) {
        if let Err(error) = self.store(key, token) {
            self.warn("cannot store the token in", &error);
        }
    }

    fn lock<'a>(&'a self, key: &'a str) -> Locking<'a> {
        Box::pin(async move {
            let locked = match self.lock_file(&format!("{:016x}.", hash(key))) {
                Ok(file) => file.wait_async().await,
                Err(error) => Err(error),
            };
            // An error is ignored here, because `save` also locks a file, and prints a warning if this fails.
            locked.map_or_else(|_| Box::new(()) as TokenLock, |file| Box::new(file) as TokenLock)
        })
    }
}

/// A lock file. The system releases the lock when the file is closed or the process ends.
struct LockFile(File);

impl LockFile {
    /// Waits for the lock by polling, because a caller could not cancel a blocking wait.
    async fn wait_async(self) -> io::Result<File> {
        while !self.try_lock()? {
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        }
        Ok(self.0)
    }

    /// Waits at most one second for the lock. If another process holds the lock longer, that process is
    /// probably suspended.
    fn wait(self) -> io::Result<File> {
        for _ in 0..LOCK_POLLS_MAX {
            if self.try_lock()? {
                return Ok(self.0);
            }
            thread::sleep(LOCK_POLL_INTERVAL);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Tries to lock the file. Returns `false` if another process holds the lock.
    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Hashes a key with FNV-1a. The name of the lock file contains the hash. All versions of Thruway must use
/// the same hash function, so that all versions lock the same file for a key. Keys with equal hashes share a
/// lock, which is harmless.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Time between two attempts to lock a file.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of attempts to lock the file before a write.
const LOCK_POLLS_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn token(access_token: &str) -> StoredToken {
        let stored = json!({
            "issuer": "https://as.example", "resource": "https://mcp.example/mcp", "access_token": access_token,
            "is_dpop": false, "expires_at": null, "refresh_token": null, "scopes": "", "dpop_key": null,
            "client": {"id": "id", "secret": null, "method": "none", "redirect_uri": null, "scopes": ""},
        });
        serde_json::from_value(stored).unwrap()
    }

    fn file(directory: &tempfile::TempDir) -> TokenFile {
        TokenFile(directory.path().join("thruway/mcp_tokens.json"))
    }

    /// Concurrent writers once overwrote each other's tokens.
    #[test]
    fn concurrent_saves_keep_all_tokens() {
        let directory = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for n in 0..8 {
                let file = file(&directory);
                scope.spawn(move || file.save(&format!("https://{n}.example"), &token(&n.to_string())));
            }
        });
        let kept = file(&directory);
        for n in 0..8 {
            assert!(kept.load(&format!("https://{n}.example")) == Some(token(&n.to_string())), "{n}");
        }
    }

    /// The program could once not read the token file and then overwrote it with only the new token.
    #[test]
    fn unreadable_token_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(&directory);
        file.save("https://a.example", &token("a"));
        let half = r#"{"https://a.example":{"issuer":"#;
        fs::write(&file.0, half).unwrap();
        file.save("https://b.example", &token("b"));
        assert_eq!(fs::read_to_string(&file.0).unwrap(), half);
        assert!(file.load("https://b.example").is_none());
        // Tokens that another version wrote stay unchanged.
        fs::write(&file.0, r#"{"https://a.example":{"later":true}}"#).unwrap();
        file.save("https://b.example", &token("b"));
        assert!(
            file.load("https://a.example").is_none() && file.load("https://b.example") == Some(token("b"))
        );
        let kept: Value = serde_json::from_slice(&fs::read(&file.0).unwrap()).unwrap();
        assert_eq!(kept["https://a.example"], json!({"later": true}));
    }

    #[tokio::test]
    async fn token_refresh_lock_is_exclusive_per_server() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (file(&directory), file(&directory));
        let lock = one.lock("https://a.example").await;
        let _elsewhere = two.lock("https://b.example").await;
        tokio::select! {
            biased;
            _ = two.lock("https://a.example") => panic!("the lock is held"),
            () = std::future::ready(()) => {}
        }
        drop(lock);
        two.lock("https://a.example").await;
    }
}
