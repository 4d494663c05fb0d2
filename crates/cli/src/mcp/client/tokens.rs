//! Tokens in a file that only its owner can read, so that one login lasts. Several processes may share it.

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

/// A file of tokens, by the URL of the server and the grant.
pub(super) struct TokenFile(PathBuf);

/// Those of other servers are not read: another version may have written them.
type Tokens = BTreeMap<String, Box<RawValue>>;

impl TokenFile {
    /// The file of this user; `None` if it is not known where that is.
    pub(super) fn at_home() -> Option<Self> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
        Some(Self(state.join("thruway/mcp_tokens.json")))
    }

    /// All tokens. What cannot be read is an error: to write it anew would be to log out of everything.
    fn read(&self) -> io::Result<Tokens> {
        match fs::read(&self.0) {
            Ok(octets) => Ok(serde_json::from_slice(&octets)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tokens::new()),
            Err(error) => Err(error),
        }
    }

    fn find(&self, key: &str) -> io::Result<Option<StoredToken>> {
        let token = self.read()?.remove(key);
        Ok(token.map(|token| serde_json::from_str(token.get())).transpose()?)
    }

    /// Keeps a token beside those of other servers, whoever writes them at the same time.
    fn keep(&self, key: &str, token: &StoredToken) -> io::Result<()> {
        let _lock = self.lock_file("")?.wait()?;
        let mut tokens = self.read()?;
        tokens.insert(key.to_owned(), serde_json::value::to_raw_value(token)?);
        self.write(&tokens)
    }

    /// Replaces the file as a whole: nobody sees half of it, or may read it meanwhile.
    fn write(&self, tokens: &Tokens) -> io::Result<()> {
        let new = self.0.with_extension(format!("{}.new", std::process::id()));
        // Left over from a process that had this number once.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(tokens)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.0)
    }

    /// A file beside this one that is locked instead of it, because this one is replaced. It stays: whoever
    /// removed it would let two in, one with the file that is gone.
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
            self.warn("no token can be read", &error);
            None
        })
    }

    fn save(&self, key: &str, token: &StoredToken) {
        if let Err(error) = self.keep(key, token) {
            self.warn("the token is not kept", &error);
        }
    }

    fn lock<'a>(&'a self, key: &'a str) -> Locking<'a> {
        Box::pin(async move {
            let locked = match self.lock_file(&format!("{:016x}.", digest(key))) {
                Ok(file) => file.turn().await,
                Err(error) => Err(error),
            };
            // Where nothing can be locked nothing can be kept either, of which a warning is given then.
            locked.map_or_else(|_| Box::new(()) as TokenLock, |file| Box::new(file) as TokenLock)
        })
    }
}

/// A file that is locked until it is closed, by its process if by nobody else.
struct LockFile(File);

impl LockFile {
    /// Locks it when nobody else has. A thread that waited for it could not be called back.
    async fn turn(self) -> io::Result<File> {
        while !self.is_locked()? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(self.0)
    }

    /// The same, for those who are quick: who is not done within a second has been stopped.
    fn wait(self) -> io::Result<File> {
        for _ in 0..LOOKS_MAX {
            if self.is_locked()? {
                return Ok(self.0);
            }
            thread::sleep(LOOK);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Whether it is ours now.
    fn is_locked(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// A name for what may be too long for one (FNV-1a): the same in all versions, so that they wait for each
/// other. Those that share one wait for each other as well.
fn digest(text: &str) -> u64 {
    let step = |digest: u64, octet| (digest ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// How often is looked whether a file is free.
const LOOK: Duration = Duration::from_millis(10);

/// How often by those who are quick.
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

    /// Whoever wrote last wrote what it had read before the others wrote.
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

    /// One read that failed, and the next token was the only one that was left.
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
        // What another version has written of another server is left as it is.
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
