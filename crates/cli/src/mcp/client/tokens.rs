//! A file of tokens that only its owner can read, so that a login lasts. Several processes can share it.

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

/// A file of tokens by server URL and grant.
pub(super) struct TokenFile(PathBuf);

/// Tokens of other servers stay unparsed, because a newer version may have written them.
type Tokens = BTreeMap<String, Box<RawValue>>;

impl TokenFile {
    /// Returns the file of this user. `None` if neither `XDG_STATE_HOME` nor `HOME` is set.
    pub(super) fn of_user() -> Option<Self> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
        Some(Self(state.join("thruway/mcp_tokens.json")))
    }

    /// Reads all tokens. An unreadable file is an error: to overwrite it would log the user out everywhere.
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

    /// Stores a token. Other processes may write tokens of other servers at the same time.
    fn keep(&self, key: &str, token: &StoredToken) -> io::Result<()> {
        let _lock = self.lock_file("")?.wait()?;
        let mut tokens = self.read()?;
        tokens.insert(key.to_owned(), serde_json::value::to_raw_value(token)?);
        self.write(&tokens)
    }

    /// Replaces the file atomically, so that no process reads a part of it. Only the owner can read the new
    /// file at any time.
    fn write(&self, tokens: &Tokens) -> io::Result<()> {
        let new = self.0.with_extension(format!("{}.new", std::process::id()));
        // Left by an earlier process with this id.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(tokens)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.0)
    }

    /// Returns the lock file of the token file, which itself is replaced on each write. The lock file stays:
    /// after a removal, two processes could hold locks on different files.
    fn lock_file(&self, name: &str) -> io::Result<LockFile> {
        let path = self.0.with_extension(format!("{name}lock"));
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(Path::new("/")))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(path).map(LockFile)
    }

    fn warn(&self, what: &str, error: &io::Error) {
        print::to_stderr(&format!("warning: {what}: `{}`: {error}", self.0.display()));
    }
}

impl TokenStore for TokenFile {
    fn load(&self, key: &str) -> Option<StoredToken> {
        self.find(key).unwrap_or_else(|error| {
            self.warn("cannot read tokens", &error);
            None
        })
    }

    fn save(&self, key: &str, token: &StoredToken) {
        if let Err(error) = self.keep(key, token) {
            self.warn("cannot store the token", &error);
        }
    }

    fn lock<'a>(&'a self, key: &'a str) -> Locking<'a> {
        Box::pin(async move {
            let locked = match self.lock_file(&format!("{:016x}.", digest(key))) {
                Ok(file) => file.turn().await,
                Err(error) => Err(error),
            };
            // Without a lock file, tokens cannot be stored either; that prints a warning.
            locked.map_or_else(|_| Box::new(()) as TokenLock, |file| Box::new(file) as TokenLock)
        })
    }
}

/// A locked file. Closing it, or the end of the process, releases the lock.
struct LockFile(File);

impl LockFile {
    /// Waits for the lock by polling, because a blocking wait could not be canceled.
    async fn turn(self) -> io::Result<File> {
        while !self.is_locked()? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(self.0)
    }

    /// Waits for the lock at most a second: a process that holds it longer has stopped.
    fn wait(self) -> io::Result<File> {
        for _ in 0..LOOKS_MAX {
            if self.is_locked()? {
                return Ok(self.0);
            }
            thread::sleep(LOOK);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Tries to lock the file.
    fn is_locked(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Returns a short file name for a long key (FNV-1a). It is the same in all versions, so that they exclude
/// each other. Keys with the same name exclude each other, too.
fn digest(text: &str) -> u64 {
    let step = |digest: u64, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Time between attempts to lock a file.
const LOOK: Duration = Duration::from_millis(10);

/// Time between attempts to lock a file for a short write.
const LOOKS_MAX: u32 = 100;

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
    fn tokens_that_are_saved_at_the_same_time_are_all_kept() {
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
    fn what_cannot_be_read_is_not_written_anew() {
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
    async fn one_at_a_time_renews_a_token_of_a_server() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (file(&directory), file(&directory));
        let lock = one.lock("https://a.example").await;
        let _elsewhere = two.lock("https://b.example").await;
        tokio::select! {
            biased;
            _ = two.lock("https://a.example") => panic!("somebody else has it"),
            () = std::future::ready(()) => {}
        }
        drop(lock);
        two.lock("https://a.example").await;
    }
}
